// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <stdio.h>
#include <string.h>
#include <tesela/tesela.h>

int main(void) {
  tesela_context_options options;
  tesela_context *context;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.device = "host";
  options.no_disk_cache = 1;
  if (tesela_context_create(&options, &context) != TESELA_OK) {
    fprintf(stderr, "%s\n", tesela_last_error());
    return 1;
  }
  printf("%s %s\n", tesela_version(), tesela_context_target(context));
  tesela_context_destroy(context);
  return 0;
}

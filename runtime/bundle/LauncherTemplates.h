//===- LauncherTemplates.h - launcher.h.in and launcher.c.in ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_LAUNCHERTEMPLATES_H
#define TESELA_BUNDLE_LAUNCHERTEMPLATES_H

namespace tesela {

/// The two files as the library holds them. `@key@` is replaced; lines between `@if function` and
/// `@end` stay where that function is called.
extern const char *const launcherHeaderTemplate;
extern const char *const launcherSourceTemplate;

} // namespace tesela

#endif // TESELA_BUNDLE_LAUNCHERTEMPLATES_H

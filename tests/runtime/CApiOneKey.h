/*===- CApiOneKey.h - The smallest launch -------------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_TESTS_RUNTIME_CAPIONEKEY_H
#define TESELA_TESTS_RUNTIME_CAPIONEKEY_H

#include "CApiTest.h"

enum { head_dim = 8 };

/* A launch of one query with one key, whose value is the result. It must not be copied, because
 * it points into itself. */
struct one_key {
  tesela_launch_arguments arguments;
  tesela_parameter parameter;
  int64_t extents[1];
  float q[head_dim], k[head_dim], v[head_dim], o[head_dim], lse[1], slope[1];
};

static inline void prepare_one_key(struct one_key *launch, float value) {
  tesela_launch_arguments *arguments = &launch->arguments;
  int i;
  memset(launch, 0, sizeof *launch);
  for (i = 0; i < head_dim; ++i)
    launch->v[i] = value + (float)i;
  launch->extents[0] = 1;
  launch->parameter.name = "slope";
  launch->parameter.data = launch->slope;
  launch->parameter.rank = 1;
  launch->parameter.extents = launch->extents;
  arguments->size = sizeof *arguments;
  arguments->batch = arguments->heads = arguments->kv_heads = 1;
  arguments->length = arguments->kv_length = 1;
  arguments->q.data = launch->q;
  arguments->k.data = launch->k;
  arguments->v.data = launch->v;
  arguments->o.data = launch->o;
  arguments->lse = launch->lse;
  arguments->parameters = &launch->parameter;
  arguments->parameter_count = 1;
}

static inline int one_key_is_right(const struct one_key *launch) {
  return memcmp(launch->o, launch->v, sizeof launch->v) == 0;
}

#endif /* TESELA_TESTS_RUNTIME_CAPIONEKEY_H */

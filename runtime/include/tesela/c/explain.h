/*===- explain.h - Which tiles a kernel computes ----------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_EXPLAIN_H
#define TESELA_C_EXPLAIN_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a launch what decides about its tiles. */
typedef struct tesela_explain_arguments {
  size_t size; /* sizeof(tesela_explain_arguments) */
  int64_t batch;
  int64_t heads; /* a multiple of kv_heads */
  int64_t kv_heads;
  int64_t length;                     /* queries */
  int64_t kv_length;                  /* keys */
  const tesela_parameter *parameters; /* captured tensors lie in the host's memory */
  size_t parameter_count;
  int threads; /* that do the work; 0: the hardware's */
} tesela_explain_arguments;

typedef struct tesela_explanation tesela_explanation;

/* Tells what each tile is to the kernel that `options` give: read from the kernel's own program. No
 * GPU is needed. On success *explanation must be given to tesela_explanation_destroy; the captured
 * tensors must live until then. */
TESELA_API tesela_code tesela_explain(const tesela_kernel_options *options,
                                      const tesela_explain_arguments *arguments,
                                      tesela_explanation **explanation);
TESELA_API void tesela_explanation_destroy(tesela_explanation *explanation); /* NULL is allowed */

/* What a tile is to a kernel. */
typedef enum tesela_tile_kind TESELA_AS_INT {
  TESELA_TILE_EMPTY = 0,   /* no pair in it is kept: neither loaded nor computed */
  TESELA_TILE_PARTIAL = 1, /* not proved: computed, then masked pair by pair */
  TESELA_TILE_FULL = 2     /* every pair in it is kept: computed without the mask */
} tesela_tile_kind;

/* How a kernel finds the tiles that it computes. */
typedef enum tesela_tile_form TESELA_AS_INT {
  TESELA_EVERY_TILE = 0,      /* it computes them all */
  TESELA_KEY_RANGES = 1,      /* by runs of keys, closed formulas in the block of queries */
  TESELA_CLASSIFIED_TILES = 2 /* by a test of each tile, or of many at once */
} tesela_tile_form;

/* Row r has the queries from r * block_m on, column c the keys from c * block_n on. Texts live as
 * long as the explanation. */
typedef struct tesela_explanation_info {
  size_t size;          /* sizeof(tesela_explanation_info) */
  const char *variant;  /* its name */
  const char *target;   /* "host", "sm_90" */
  const char *schedule; /* that the kernel has */
  int64_t block_m;
  int64_t block_n;
  int64_t rows;
  int64_t columns;
  tesela_tile_form form;
  int runs;                /* of keys, at most; of TESELA_KEY_RANGES */
  size_t head_count;       /* of tesela_explanation_head */
  size_t lost_proof_count; /* of tesela_explanation_lost_proof */
  const char *lost_proofs; /* all of them for people, each with file, line, column and caret */
  int64_t cell;            /* tiles along each axis of a cell, which has one kind: that of its tiles,
                              partial where they are of several; 1 unless there are too many tiles to
                              tell them one by one */
} tesela_explanation_info;

/* Writes *info, whose size the caller has set; so do the next two. */
TESELA_API tesela_code tesela_explanation_describe(const tesela_explanation *explanation,
                                                   tesela_explanation_info *info);

/* The tiles of one head, or of all heads that the mask does not tell apart. */
typedef struct tesela_head_tiles {
  size_t size;          /* sizeof(tesela_head_tiles) */
  int32_t batch;        /* -1: of every batch */
  int32_t head;         /* the query head; -1: of every head */
  int64_t empty;        /* how many tiles are empty, */
  int64_t partial;      /* partial, */
  int64_t full;         /* full */
  int64_t kept_pairs;   /* (q, k); -1 where they are too many to be counted */
  const uint8_t *kinds; /* tesela_tile_kind, rows x columns, row after row; lives as long as the
                           explanation; NULL where a cell has more than one tile */
  const uint8_t *cells; /* likewise of cells: as many rows and columns as hold all tiles */
} tesela_head_tiles;

TESELA_API tesela_code tesela_explanation_head(const tesela_explanation *explanation, size_t index,
                                               tesela_head_tiles *tiles);

/* A part of a mask of which the analysis can say nothing. */
typedef struct tesela_lost_proof {
  size_t size;        /* sizeof(tesela_lost_proof) */
  int line;           /* in the variant's text, from 1 */
  int column;         /* from 1, in bytes */
  const char *reason; /* why, as half a sentence */
  const char *remedy; /* how to write it so that the proof keeps; may be "" */
} tesela_lost_proof;

TESELA_API tesela_code tesela_explanation_lost_proof(const tesela_explanation *explanation,
                                                     size_t index, tesela_lost_proof *lost);

/* Sets *keeps to 1 where the mask keeps the pair (q, k) of batch b and query head h, by the
 * variant's own text, else to 0. */
TESELA_API tesela_code tesela_explanation_keeps(const tesela_explanation *explanation, int64_t b,
                                                int64_t h, int64_t q, int64_t k, int *keeps);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_EXPLAIN_H */

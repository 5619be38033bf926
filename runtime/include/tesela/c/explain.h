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

/* The arguments of a launch that decide which tiles it computes. */
typedef struct tesela_explain_arguments {
  size_t size; /* sizeof(tesela_explain_arguments) */
  int64_t batch;
  int64_t heads; /* a multiple of kv_heads */
  int64_t kv_heads;
  int64_t length;                     /* queries */
  int64_t kv_length;                  /* keys */
  const tesela_parameter *parameters; /* captured tensors lie in host memory */
  size_t parameter_count;
  int threads; /* how many do the work; 0: one for each usable processor */
} tesela_explain_arguments;

typedef struct tesela_explanation tesela_explanation;

/* Finds the kind of each tile for the kernel that `options` give, from the kernel's own program.
 * No GPU is needed. On success give *explanation to tesela_explanation_destroy; the captured
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
  TESELA_EVERY_TILE = 0,      /* it computes all tiles */
  TESELA_KEY_RANGES = 1,      /* it computes runs of keys, from closed formulas in the block of
                                 queries */
  TESELA_CLASSIFIED_TILES = 2 /* it tests each tile, or many at once */
} tesela_tile_form;

/* Row r has the queries from r * block_m on. Column c has the keys from c * block_n on. Texts
 * live as long as the explanation. */
typedef struct tesela_explanation_info {
  size_t size;          /* sizeof(tesela_explanation_info) */
  const char *variant;  /* its name */
  const char *target;   /* "host", "sm_90" */
  const char *schedule; /* the kernel's schedule */
  int64_t block_m;
  int64_t block_n;
  int64_t rows;
  int64_t columns;
  tesela_tile_form form;
  int runs;                /* the most runs of keys; for TESELA_KEY_RANGES */
  size_t head_count;       /* of tesela_explanation_head */
  size_t lost_proof_count; /* of tesela_explanation_lost_proof */
  const char *lost_proofs; /* all of them as text, each with file, line, column and caret */
  int64_t cell;            /* tiles along each axis of a cell; 1, or more if there are too many
                              tiles to list. A cell has one kind: that of its tiles, or partial
                              if they differ */
} tesela_explanation_info;

/* Writes *info, whose size the caller has set; so do the next two. */
TESELA_API tesela_code tesela_explanation_describe(const tesela_explanation *explanation,
                                                   tesela_explanation_info *info);

/* The tiles of one head, or of all heads if the mask treats them alike. */
typedef struct tesela_head_tiles {
  size_t size;          /* sizeof(tesela_head_tiles) */
  int32_t batch;        /* -1: every batch */
  int32_t head;         /* the query head; -1: every head */
  int64_t empty;        /* numbers of tiles: empty, */
  int64_t partial;      /* partial, */
  int64_t full;         /* full */
  int64_t kept_pairs;   /* pairs (q, k); -1 if there are too many to count */
  const uint8_t *kinds; /* tesela_tile_kind, rows x columns, row by row; lives as long as the
                           explanation; NULL if a cell has more than one tile */
  const uint8_t *cells; /* the same for cells, with as many rows and columns as cover all tiles */
} tesela_head_tiles;

TESELA_API tesela_code tesela_explanation_head(const tesela_explanation *explanation, size_t index,
                                               tesela_head_tiles *tiles);

/* A part of a mask about which the analysis can prove nothing. */
typedef struct tesela_lost_proof {
  size_t size;        /* sizeof(tesela_lost_proof) */
  int line;           /* in the variant's text, from 1 */
  int column;         /* from 1, in bytes */
  const char *reason; /* why, as half a sentence */
  const char *remedy; /* how to write it so that the analysis can prove it; may be "" */
} tesela_lost_proof;

TESELA_API tesela_code tesela_explanation_lost_proof(const tesela_explanation *explanation,
                                                     size_t index, tesela_lost_proof *lost);

/* Sets *keeps to 1 if the mask keeps the pair (q, k) of batch b and query head h, by the
 * variant's text, else to 0. */
TESELA_API tesela_code tesela_explanation_keeps(const tesela_explanation *explanation, int64_t b,
                                                int64_t h, int64_t q, int64_t k, int *keeps);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_EXPLAIN_H */

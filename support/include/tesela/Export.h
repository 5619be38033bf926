//===- Export.h - Exports of the shared library -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_EXPORT_H
#define TESELA_EXPORT_H

/// Marks what the shared library exports. The rest is hidden, so two LLVMs can live in one process.
#define TESELA_EXPORT __attribute__((visibility("default")))

#endif // TESELA_EXPORT_H

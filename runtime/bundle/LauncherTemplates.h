//===- LauncherTemplates.h - The text of runtime/bundle/launcher -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_LAUNCHERTEMPLATES_H
#define TESELA_BUNDLE_LAUNCHERTEMPLATES_H

namespace tesela {

/// The files of runtime/bundle/launcher as strings: NAME.h, and the parts of NAME.c in their order.
/// `@key@` is replaced. Lines between `@if function` and `@end` are kept only if the generated part
/// calls that function.
extern const char *const launcherHeader;
extern const char *const launcherDriver;
extern const char *const launcherChecks;
extern const char *const launcherLaunches; ///< the generated part comes at its end
extern const char *const launcherFunctions;

} // namespace tesela

#endif // TESELA_BUNDLE_LAUNCHERTEMPLATES_H

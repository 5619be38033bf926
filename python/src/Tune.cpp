//===- Tune.cpp - The fastest schedule by measurement -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Native.h"

namespace tesela::python {

namespace {

/// Calls a Python function with (decided, total, speedup, seconds left). An exception ends the
/// tuning.
int tellProgress(void *function, const tesela_tune_progress *progress) {
  PyGILState_STATE state = PyGILState_Ensure(); // this is the thread that called tune
  if (!PyErr_Occurred() && PyErr_CheckSignals() == 0)
    Py_XDECREF(PyObject_CallFunction(static_cast<PyObject *>(function), "iidd", progress->decided,
                                     progress->total, progress->speedup, progress->seconds_left));
  bool isOver = PyErr_Occurred();
  PyGILState_Release(state);
  return isOver;
}

PyObject *describe(const tesela_tune_report *report) {
  auto result = sized<tesela_tune_result>();
  if (tesela_tune_report_describe(report, &result) != TESELA_OK)
    return raiseLast();
  Owned trials(PyList_New(0));
  for (size_t i = 0; trials && i < result.trial_count; ++i) {
    auto trial = sized<tesela_trial>();
    bool isThere = tesela_tune_report_trial(report, i, &trial) == TESELA_OK;
    Owned item(isThere
                   ? Py_BuildValue("(sddiis)", trial.schedule, trial.milliseconds, trial.speedup,
                                   trial.launches, trial.is_heuristic, trial.dropped)
                   : raiseLast());
    if (!item || PyList_Append(trials.get(), item.get()) < 0)
      trials = Owned();
  }
  if (!trials)
    return nullptr;
  return Py_BuildValue("{s:s,s:i,s:i,s:d,s:d,s:d,s:d,s:d,s:i,s:s,s:N}", "schedule", result.schedule,
                       "is_heuristic", result.is_heuristic, "timed", result.timed, "milliseconds",
                       result.milliseconds, "speedup", result.speedup, "over_heuristic",
                       result.over_heuristic, "over_runner_up", result.over_runner_up, "seconds",
                       result.seconds, "time_up", result.time_up, "record", result.record, "trials",
                       trials.release());
}

} // namespace

PyObject *tune(const tesela_context *context, const tesela_kernel_options &options,
               const tesela_tune_shape &shape, const tesela_tune_options &tuning,
               PyObject *progress) {
  tesela_tune_options chosen = tuning;
  if (progress != Py_None) {
    chosen.progress = tellProgress;
    chosen.progress_user = progress;
  }
  tesela_tune_report *report;
  tesela_code code;
  {
    WithoutGil others;
    code = tesela_tune(context, &options, &shape, &chosen, &report);
  }
  if (PyErr_Occurred()) { // the progress function raised
    tesela_tune_report_destroy(report);
    return nullptr;
  }
  if (code != TESELA_OK)
    return raiseLast();
  PyObject *result = describe(report);
  tesela_tune_report_destroy(report);
  return result;
}

} // namespace tesela::python

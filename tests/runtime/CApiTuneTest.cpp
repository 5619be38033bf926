//===- CApiTuneTest.cpp - Tuning from C -----------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FakeCompiler.h"
#include "system/File.h"

#include "tesela/tesela.h"

#include <gtest/gtest.h>

namespace {

using namespace tesela;

class CApiTune : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string cacheFolder = folder->path() + "/cache";
  tesela_context *context = nullptr;
  tesela_kernel_options options = {};
  tesela_tune_shape shape = {};
  tesela_tune_options tuning = {};

  void SetUp() override {
    // Eight times as fast as the heuristic's schedule, so that noise does not matter.
    fake::setCandidates({"launches = 8", "launches = 1", "broken"});
    context = makeContext(TESELA_TUNING_DEFAULT);
    options.size = sizeof options;
    options.variant = fake::variantText;
    options.input_type = TESELA_F32;
    options.head_dim_qk = options.head_dim_v = 32;
    shape.size = sizeof shape;
    shape.sizes = {1, 4, 2, 33, 47};
    tuning.size = sizeof tuning;
    tuning.seconds = 600; // the race is decided long before
  }
  void TearDown() override {
    tesela_context_destroy(context);
    fake::setCandidates({});
  }

  tesela_context *makeContext(tesela_tuning use) {
    tesela_context_options contextOptions = {};
    contextOptions.size = sizeof contextOptions;
    contextOptions.device = "host";
    contextOptions.threads = 1;
    contextOptions.cache_folder = cacheFolder.c_str();
    contextOptions.tuning = use;
    tesela_context *made = nullptr;
    EXPECT_EQ(tesela_context_create(&contextOptions, &made), TESELA_OK) << tesela_last_error();
    return made;
  }

  /// The kernel's description. `kernel` owns its texts.
  tesela_kernel_info compile(tesela_context *with, tesela_kernel **kernel) {
    tesela_kernel_info info = {};
    info.size = sizeof info;
    EXPECT_EQ(tesela_compile(with, &options, kernel), TESELA_OK) << tesela_last_error();
    EXPECT_EQ(tesela_kernel_describe(*kernel, &info), TESELA_OK);
    return info;
  }
};

TEST_F(CApiTune, FindsKeepsAndUses) {
  int calls = 0;
  tuning.progress_user = &calls;
  tuning.progress = [](void *user, const tesela_tune_progress *progress) {
    ++*static_cast<int *>(user);
    EXPECT_EQ(progress->size, sizeof *progress);
    EXPECT_EQ(progress->total, 3);
    EXPECT_NE(progress->best, nullptr);
    return 0;
  };
  tesela_tune_report *report = nullptr;
  ASSERT_EQ(tesela_tune(context, &options, &shape, &tuning, &report), TESELA_OK)
      << tesela_last_error();
  EXPECT_GE(calls, 1);
  tesela_tune_result result = {};
  result.size = sizeof result;
  ASSERT_EQ(tesela_tune_report_describe(report, &result), TESELA_OK);
  EXPECT_STREQ(result.schedule, "launches = 1");
  EXPECT_FALSE(result.is_heuristic);
  EXPECT_GT(result.speedup, 2);
  EXPECT_GE(result.over_heuristic, 0.95);
  EXPECT_GT(result.milliseconds, 0);
  EXPECT_GT(result.seconds, 0);
  EXPECT_EQ(result.timed, 2);
  EXPECT_EQ(result.trial_count, 3u);
  EXPECT_STRNE(result.record, "");
  tesela_trial trial = {};
  trial.size = sizeof trial;
  ASSERT_EQ(tesela_tune_report_trial(report, 0, &trial), TESELA_OK);
  EXPECT_STREQ(trial.schedule, "launches = 1");
  EXPECT_GT(trial.launches, 0);
  ASSERT_EQ(tesela_tune_report_trial(report, 2, &trial), TESELA_OK);
  EXPECT_STREQ(trial.schedule, "broken");
  EXPECT_STRNE(trial.dropped, "");
  EXPECT_EQ(tesela_tune_report_trial(report, 3, &trial), TESELA_INVALID_ARGUMENT);

  tesela_tuned_choices *choices = nullptr;
  ASSERT_EQ(tesela_tuned_choices_find(context, &options, &choices), TESELA_OK);
  ASSERT_EQ(tesela_tuned_choices_count(choices), 1u);
  tesela_tuned_choice choice = {};
  choice.size = sizeof choice;
  ASSERT_EQ(tesela_tuned_choices_describe(choices, 0, &choice), TESELA_OK);
  EXPECT_STREQ(choice.schedule, "launches = 1");
  EXPECT_EQ(choice.sizes.kv_length, 47);
  EXPECT_EQ(choice.timed, 2);
  EXPECT_STREQ(choice.path, result.record);
  EXPECT_GT(choice.heuristic_milliseconds, choice.milliseconds);
  EXPECT_EQ(tesela_tuned_choices_describe(choices, 1, &choice), TESELA_INVALID_ARGUMENT);
  tesela_tuned_choices_destroy(choices);

  // The next context finds the choice, unless tuning is off.
  options.sizes = &shape.sizes;
  tesela_context *second = makeContext(TESELA_TUNING_CACHED);
  tesela_kernel *kernel = nullptr;
  tesela_kernel_info info = compile(second, &kernel);
  EXPECT_EQ(info.schedule_origin, TESELA_SCHEDULE_TUNED);
  EXPECT_STREQ(info.schedule, "launches = 1");
  EXPECT_STREQ(info.tuned_record, result.record);
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(second);
  tesela_context *third = makeContext(TESELA_TUNING_OFF);
  info = compile(third, &kernel);
  EXPECT_EQ(info.schedule_origin, TESELA_SCHEDULE_HEURISTIC);
  EXPECT_STREQ(info.tuned_record, "");
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(third);

  std::string table = folder->path() + "/table.json";
  const char *records[] = {result.record, nullptr};
  EXPECT_EQ(tesela_tuned_table_add(table.c_str(), records, 1), TESELA_OK) << tesela_last_error();
  EXPECT_TRUE(readFile(table).ok());
  EXPECT_EQ(tesela_tuned_table_add(table.c_str(), records, 2), TESELA_INVALID_ARGUMENT);
  tesela_tune_report_destroy(report);
}

TEST_F(CApiTune, IsCancelledByItsProgress) {
  tuning.progress = [](void *, const tesela_tune_progress *) { return 1; };
  tesela_tune_report *report = nullptr;
  EXPECT_EQ(tesela_tune(context, &options, &shape, &tuning, &report), TESELA_CANCELLED)
      << tesela_last_error();
  EXPECT_EQ(report, nullptr);
}

TEST_F(CApiTune, KeepsNothingWhereThatIsAsked) {
  tuning.keep_nothing = 1;
  EXPECT_EQ(tesela_tune(context, &options, &shape, &tuning, nullptr), TESELA_OK)
      << tesela_last_error();
  tesela_tuned_choices *choices = nullptr;
  ASSERT_EQ(tesela_tuned_choices_find(context, &options, &choices), TESELA_OK);
  EXPECT_EQ(tesela_tuned_choices_count(choices), 0u);
  tesela_tuned_choices_destroy(choices);
}

TEST_F(CApiTune, WrongArgumentsAreTold) {
  tesela_tune_report *report = nullptr;
  auto expectError = [](tesela_code code, const char *part) {
    EXPECT_EQ(code, TESELA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(tesela_last_error()).find(part), std::string::npos)
        << tesela_last_error();
  };
  expectError(tesela_tune(nullptr, &options, &shape, nullptr, &report), "context is NULL");
  expectError(tesela_tune(context, nullptr, &shape, nullptr, &report),
              "tesela_kernel_options is NULL");
  expectError(tesela_tune(context, &options, nullptr, nullptr, &report),
              "tesela_tune_shape is NULL");
  tuning.size = 0;
  expectError(tesela_tune(context, &options, &shape, &tuning, &report),
              "set it to sizeof(tesela_tune_options)");
  tuning.size = sizeof tuning;
  tuning.seconds = -1;
  expectError(tesela_tune(context, &options, &shape, &tuning, &report), "-1");
  expectError(tesela_tune_report_describe(nullptr, nullptr), "report is NULL");
  expectError(tesela_tune_report_trial(nullptr, 0, nullptr), "report is NULL");
  expectError(tesela_tuned_choices_find(nullptr, &options, nullptr), "choices is NULL");
  expectError(tesela_tuned_choices_describe(nullptr, 0, nullptr), "choices is NULL");
  expectError(tesela_tuned_table_add(nullptr, nullptr, 0), "path is NULL");
  expectError(tesela_tuned_table_add("table.json", nullptr, 1), "records is NULL");
  EXPECT_EQ(tesela_tuned_choices_count(nullptr), 0u);
  tesela_tune_report_destroy(nullptr);
  tesela_tuned_choices_destroy(nullptr);

  tesela_context_options contextOptions = {};
  contextOptions.size = sizeof contextOptions;
  contextOptions.tuning = tesela_tuning(5);
  tesela_context *none = nullptr;
  expectError(tesela_context_create(&contextOptions, &none), "the tuning 5 is not a value");
}

} // namespace

#include "host/backend/plugin_text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace bonsai::host {
namespace {

// A backend may forget the NUL: nothing past the bound is read (the bytes behind it are not ours).
TEST(PluginText, StopsAtTheBound) {
  const std::vector<char> unterminated(8, 'x');
  EXPECT_EQ(plugin_text(unterminated.data(), unterminated.size()), "xxxxxxxx");
}

// What a backend says ends up in a terminal and in a log file of one line a message.
TEST(PluginText, IsOneLineOfPrintableText) {
  EXPECT_EQ(plugin_text("a\nb\r\tc\n", 100), "a b  c");
  EXPECT_EQ(plugin_text("\x1B[2Jred\x7F", 100), "?[2Jred?");
  EXPECT_EQ(plugin_text("csi \xC2\x9B"
                        "31m",
                        100),
            "csi ?31m");
  EXPECT_EQ(plugin_text("bad \xFF\xC3.", 100), "bad ??.");
  EXPECT_EQ(plugin_text("Grüße \xC2\xA0", 100), "Grüße \xC2\xA0");
}

// A bound that cuts a character in two leaves no half of it.
TEST(PluginText, ReplacesACharacterThatTheBoundCuts) { EXPECT_EQ(plugin_text("aé", 2), "a?"); }

TEST(PluginText, NullIsEmpty) { EXPECT_EQ(plugin_text(nullptr, 10), ""); }

TEST(CallError, NamesBackendMessageAndStatus) {
  CallError error;
  std::strcpy(error.out()->message, "device memory: 12 bytes");
  const BackendError failure = error.failure("fake", "weight_upload", BONSAI_OUT_OF_MEMORY);
  EXPECT_EQ(failure.status, bonsai_status{BONSAI_OUT_OF_MEMORY});
  EXPECT_EQ(failure.message, "fake: device memory: 12 bytes (out of memory)");
}

TEST(CallError, NamesTheFunctionWhenThereIsNoMessage) {
  EXPECT_EQ(CallError().failure("fake", "gemv", BONSAI_DEVICE_LOST).message,
            "fake: gemv failed without a message (device lost)");
}

TEST(CallError, AnExceptionIsAnInternalError) {
  CallError error;
  EXPECT_EQ(error.of([&] { return bonsai_status{BONSAI_UNSUPPORTED}; }), bonsai_status{BONSAI_UNSUPPORTED});
  bonsai_status status = error.of([]() -> bonsai_status { throw std::runtime_error("out of\nideas"); });
  EXPECT_EQ(status, bonsai_status{BONSAI_INTERNAL});
  EXPECT_EQ(error.failure("fake", "gemv", status).message, "fake: gemv threw an exception: out of ideas");
  status = error.of([]() -> bonsai_status { throw std::runtime_error(std::string(6000, 'x')); });
  EXPECT_LT(error.failure("fake", "gemv", status).message.size(), 600u);
  status = error.of([]() -> bonsai_status { throw 42; });
  EXPECT_EQ(error.failure("fake", "gemv", status).message, "fake: gemv threw an exception of unknown type");
}

// The host decides by the status what to do: a value that it does not know must not slip through its switches.
TEST(CallError, UnknownStatusIsAnInternalError) {
  const BackendError failure = CallError().failure("fake", "gemv", 77);
  EXPECT_EQ(failure.status, bonsai_status{BONSAI_INTERNAL});
  EXPECT_EQ(failure.message, "fake: gemv failed without a message (unknown status 77)");
}

}  // namespace
}  // namespace bonsai::host

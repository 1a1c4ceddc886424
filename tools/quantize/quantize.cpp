#include "tools/quantize/quantize.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/utf8.h"
#include "core/gguf/file.h"
#include "core/gguf/writer.h"
#include "tools/common/formats.h"
#include "tools/common/notices_by_kind.h"
#include "tools/common/output.h"
#include "tools/common/recoder.h"
#include "tools/quantize/plan.h"

namespace bonsai::quantize {
namespace {

bool is_float(quant::Format format) {
  return format == quant::Format::kF32 || format == quant::Format::kF16 || format == quant::Format::kBF16;
}

// What describes the input as a file, not the model.
bool describes_the_file(std::string_view key) {
  return key == "general.file_type" || key.starts_with("split.") || key.starts_with("quantize.");
}

void write_metadata(const gguf::File &file, std::span<const PlannedTensor> plan, gguf::Writer &writer) {
  for (const auto &[key, value] : file.metadata()) {
    if (!describes_the_file(key)) writer.set_value(key, value);
  }
  writer.set_uint32("general.quantization_version", 2);
  std::map<quant::Format, uint64_t> matrix_weights;
  for (const PlannedTensor &tensor : plan) {
    if (is_matrix(*tensor.source)) matrix_weights[tensor.format->format] += tensor.weights();
  }
  if (const auto type = tools::file_type(matrix_weights)) writer.set_uint32("general.file_type", *type);
}

// Takes the tensors through the Recoder in turn, and keeps what there is to tell about them.
class Streamer {
 public:
  Streamer(const gguf::File &file, bool requantize, gguf::Writer &writer, const Progress &progress, uint64_t total)
      : file_(file), requantize_(requantize), recoder_(writer, progress, total) {}

  Result<void> stream(const PlannedTensor &tensor) {
    const gguf::Tensor &source = *tensor.source;
    const quant::FormatTraits &from = quant::traits(source.format);
    const bool quantised = !is_float(from.format);
    const std::string name = fmt::format("{}: tensor {} ({})", file_.path(), quoted(source.name), from.name);
    const auto sums =
        recoder_.write({name, source.columns(), &from, source.data, tensor.format, quantised && !requantize_},
                       [&](std::span<const std::byte> blocks) { file_.release(blocks); });
    if (!sums) return tl::unexpected(sums.error());
    if (sums->have_vanished()) vanished_.add_vanished(printable(source.name), tensor.format->name);
    if (quantised && sums->changed) ++losses_[{from.name, tensor.format->name}];
    errors_.push_back({printable(source.name), &from, tensor.format, sums->relative_rms(), sums->max_absolute});
    return {};
  }

  void finish(Report &report) {
    vanished_.append_to(report.notices);
    for (const auto &[formats, tensors] : losses_) {
      report.notices.push_back(fmt::format("{} {} {} already and lost more as {}", tensors,
                                           tensors == 1 ? "tensor was" : "tensors were", formats.first,
                                           formats.second));
    }
    report.tensors = std::move(errors_);
  }

 private:
  const gguf::File &file_;
  bool requantize_;
  tools::Recoder recoder_;
  // Tensors that were quantised already and changed, by the formats that they had and got.
  std::map<std::pair<std::string_view, std::string_view>, uint64_t> losses_;
  tools::NoticesByKind vanished_;
  std::vector<TensorError> errors_;
};

}  // namespace

Result<Report> quantize(const Request &request, const Progress &progress) {
  const auto file = gguf::File::open(request.input);
  if (!file) return tl::unexpected(file.error());
  if (const auto checked = tools::check_output(request.output, file->paths()); !checked)
    return tl::unexpected(checked.error());
  if (file->tensors().empty()) return fail("{}: has no tensors", file->path());
  Report report;
  report.notices = file->warnings();
  const std::vector<PlannedTensor> plan = plan_tensors(*file, request, report.notices);

  auto writer = gguf::Writer::create(request.output);
  if (!writer) return tl::unexpected(writer.error());
  write_metadata(*file, plan, *writer);
  uint64_t total = 0;
  for (const PlannedTensor &tensor : plan) {
    const auto added = writer->add_tensor(tensor.source->name, tensor.source->shape, tensor.format->format);
    if (!added) return tl::unexpected(added.error());
    total += tensor.weights();
  }
  if (const auto begun = writer->begin_data(); !begun) return tl::unexpected(begun.error());

  Streamer streamer(*file, request.requantize, *writer, progress, total);
  for (const PlannedTensor &tensor : plan) {
    if (const auto done = streamer.stream(tensor); !done) return tl::unexpected(done.error());
  }
  progress(total, total);
  if (const auto finished = writer->finish(); !finished) return tl::unexpected(finished.error());
  streamer.finish(report);
  return report;
}

}  // namespace bonsai::quantize

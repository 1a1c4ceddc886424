#include "host/runtime/device_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/quant/transcode.h"
#include "host/backend/registry.h"

namespace bonsai::host {

// Brings a model's tensors to a device, one weight after another.
class Uploader {
 public:
  Uploader(const model::Model &model, Device &device, const UploadProgress &progress)
      : model_(model), device_(device), progress_(progress), result_(new DeviceModel(model, device)) {}

  BackendResult<std::unique_ptr<DeviceModel>> run() {
    for (const model::LayerWeights &layer : model_.layers) {
      for (const gguf::Tensor *tensor : {layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_output, layer.ffn_gate,
                                         layer.ffn_up, layer.ffn_down}) {
        total_bytes_ += tensor->data.size();
      }
    }
    total_bytes_ += model_.token_embd->data.size() + (model_.tied ? 0 : model_.head->data.size());
    auto done = upload_embedding_and_head();
    for (size_t i = 0; done && i < model_.layers.size(); ++i) done = upload_layer(model_.layers[i]);
    if (!done) return tl::unexpected(done.error());
    return std::move(result_);
  }

 private:
  BackendResult<void> upload_layer(const model::LayerWeights &layer) {
    DeviceLayer made;
    const std::array qkv = {layer.attn_q, layer.attn_k, layer.attn_v};
    const std::array gate_up = {layer.ffn_gate, layer.ffn_up};
    auto done = upload(qkv, BONSAI_USE_MATRIX, made.qkv);
    if (done) done = upload(std::array{layer.attn_output}, BONSAI_USE_MATRIX, made.o);
    if (done) done = upload(gate_up, BONSAI_USE_MATRIX, made.gate_up);
    if (done) done = upload(std::array{layer.ffn_down}, BONSAI_USE_MATRIX, made.down);
    result_->layers_.push_back(std::move(made));
    return done;
  }

  // A tied head shares the embedding's weight where the device can use one weight both ways. An embedding is never
  // transcoded: the host looks its rows up instead, as it always does below level 2, and nothing of it is copied.
  BackendResult<void> upload_embedding_and_head() {
    const auto uses = uses_of(model_.token_embd->format);
    if (!uses) return tl::unexpected(uses.error());
    const bool looks_up = device_.backend().level() == 2 && (*uses & BONSAI_USE_EMBEDDING) != 0;
    constexpr bonsai_weight_use kBoth = BONSAI_USE_MATRIX | BONSAI_USE_EMBEDDING;
    if (model_.tied && looks_up && (*uses & BONSAI_USE_MATRIX)) {
      return upload(std::array{model_.token_embd}, kBoth, result_->embedding_);
    }
    if (!model_.tied) {
      if (looks_up) {
        auto done = upload(std::array{model_.token_embd}, BONSAI_USE_EMBEDDING, result_->embedding_);
        if (!done) return done;
      } else {
        report(model_.token_embd->data.size());
      }
    }
    return upload(std::array{model_.head}, BONSAI_USE_MATRIX, result_->head_);
  }

  // Stacks `tensors` by rows into one weight.
  BackendResult<void> upload(std::span<const gguf::Tensor *const> tensors, bonsai_weight_use uses, Weight &weight) {
    std::vector<Weight::Part> parts;
    std::vector<std::vector<std::byte>> transcoded;
    std::vector<std::string_view> names;
    for (const gguf::Tensor *tensor : tensors) {
      const auto part = part_for(*tensor, uses, transcoded);
      if (!part) return tl::unexpected(part.error());
      parts.push_back(*part);
      names.push_back(tensor->name);
    }
    const std::string name = fmt::format("{}", fmt::join(names, "+"));
    auto uploaded = Weight::upload(device_, name, tensors.front()->columns(), parts, uses,
                                   /*borrowed=*/model_.file->is_mapped());
    if (!uploaded) {
      return tl::unexpected(
          BackendError{uploaded.error().status, fmt::format("{}: {}", name, uploaded.error().message)});
    }
    weight = *std::move(uploaded);
    result_->weight_bytes_ += weight.bytes();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool is_kept = weight.keeps_host_memory() && parts[i].data.data() == tensors[i]->data.data();
      if (!is_kept) model_.file->release(tensors[i]->data);
      if (weight.keeps_host_memory()) result_->borrowed_bytes_ += parts[i].data.size();
      report(tensors[i]->data.size());
    }
    if (weight.keeps_host_memory()) {
      for (auto &copy : transcoded) result_->transcoded_.push_back(std::move(copy));
    }
    return {};
  }

  // The tensor as it is if the device takes its format for `uses`, else in the first format that the device takes and
  // that holds the same values; such a copy is added to `transcoded`.
  BackendResult<Weight::Part> part_for(const gguf::Tensor &tensor, bonsai_weight_use uses,
                                       std::vector<std::vector<std::byte>> &transcoded) {
    const auto served = uses_of(tensor.format);
    if (!served) return tl::unexpected(served.error());
    if ((*served & uses) == uses) {
      return Weight::Part{static_cast<bonsai_dtype>(tensor.format), tensor.rows(), tensor.data};
    }
    for (const quant::Format format : quant::lossless_targets(tensor.format)) {
      const auto target_served = uses_of(format);
      if (!target_served) return tl::unexpected(target_served.error());
      const quant::FormatTraits &target = quant::traits(format);
      if ((*target_served & uses) != uses || tensor.columns() % target.block_weights != 0) continue;
      const size_t n = tensor.rows() * tensor.columns();
      std::vector<std::byte> copy(quant::row_bytes(target, n));
      if (!quant::transcode(tensor.format, format, tensor.data.data(), copy.data(), n)) continue;
      transcoded.push_back(std::move(copy));
      return Weight::Part{static_cast<bonsai_dtype>(format), tensor.rows(), transcoded.back()};
    }
    return tl::unexpected(
        BackendError{BONSAI_UNSUPPORTED, fmt::format("{}: the backend '{}' does not take {}", tensor.name,
                                                     device_.backend().name(), quant::traits(tensor.format).name)});
  }

  BackendResult<bonsai_weight_use> uses_of(quant::Format format) {
    const auto known = uses_.find(format);
    if (known != uses_.end()) return known->second;
    const auto uses = device_.dtype_support(static_cast<bonsai_dtype>(format));
    if (uses) uses_[format] = *uses;
    return uses;
  }

  void report(uint64_t bytes) {
    done_bytes_ += bytes;
    if (progress_) progress_(done_bytes_, total_bytes_);
  }

  const model::Model &model_;
  Device &device_;
  const UploadProgress &progress_;
  std::unique_ptr<DeviceModel> result_;
  std::map<quant::Format, bonsai_weight_use> uses_;  // what the device said
  uint64_t done_bytes_ = 0, total_bytes_ = 0;
};

BackendResult<std::unique_ptr<DeviceModel>> DeviceModel::upload(const model::Model &model, Device &device,
                                                                const UploadProgress &progress) {
  return Uploader(model, device, progress).run();
}

}  // namespace bonsai::host

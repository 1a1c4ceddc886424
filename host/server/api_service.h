// Answers the requests of OpenAI's APIs and Anthropic's, and an operator's: which path is whose, who may ask, and how
// much at once.
#pragma once

#include <bonsai/batch_engine.h>
#include <bonsai/embedding.h>

#include <cstdint>
#include <memory>
#include <string>

#include "host/server/http.h"
#include "host/server/http_server.h"

namespace bonsai::server {

struct ApiOptions {
  std::string model_name;    // as clients see it
  std::string api_key = {};  // that a client has to know; empty: none
  GenerateOptions defaults = {};
  BatchOptions batch = {};
  EmbeddingOptions embedding = {};
  uint32_t max_waiting = 64;  // texts beyond those that are computed at once, and texts to embed; more are refused
};

class ApiService {
 public:
  // Throws EngineError, as BatchEngine does, and where `defaults` are options that it refuses for this model.
  ApiService(const Engine &engine, const ApiOptions &options);
  // Whatever has not ended is cancelled.
  ~ApiService();
  ApiService(const ApiService &) = delete;
  ApiService &operator=(const ApiService &) = delete;

  // An HttpHandler.
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);
  // For the metrics.
  void served(const Served &served);
  // Texts that are computed or wait to be. Any thread.
  uint32_t n_under_way() const;
  // Where texts are computed. Any thread.
  BackendInfo backend() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bonsai::server

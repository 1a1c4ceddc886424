// An HTTP client that sends exactly what a test says, and reads answers whole. Nothing waits longer than 30 s.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::server {

struct Response {
  int status = 0;                              // 0: there was none
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  bool is_complete = false;                    // as long as it said, or ended by its last chunk

  std::string header(const std::string &name) const;
  // The data of each server-sent event.
  std::vector<std::string> events() const;
};

class Client {
 public:
  // `receive_bytes`: that the kernel keeps for it; 0: as many as it likes.
  explicit Client(uint16_t port, int receive_bytes = 0);
  ~Client();
  Client(const Client &) = delete;
  Client &operator=(const Client &) = delete;

  void send(std::string_view bytes) const;
  // "GET /path HTTP/1.1" with a Host, a length where there is a body, and further lines, each ended by "\r\n".
  void request(const std::string &method, const std::string &path, const std::string &body = "",
               const std::string &headers = "") const;
  // The next answer; `has_body`: not one to HEAD.
  Response response(bool has_body = true);
  Response get(const std::string &path, const std::string &headers = "");
  Response post(const std::string &path, const std::string &body, const std::string &headers = "");

  // Reads until `text` has come. False: the server closed before.
  bool read_until(std::string_view text);
  // Reads until so many bytes more are there than before.
  bool read_bytes(size_t n);
  const std::string &unread() const { return buffer_; }
  // The server has closed, and sent nothing that was not read.
  bool is_closed();
  void close();

 private:
  bool read_more();
  std::optional<std::string> take_line();
  bool take(size_t n, std::string &into);

  int socket_ = -1;
  std::string buffer_;
};

// Looks again and again, for 30 s.
bool comes_true(const std::function<bool()> &what);

// A port of this machine that nobody listens on.
uint16_t unused_port();

}  // namespace bonsai::server

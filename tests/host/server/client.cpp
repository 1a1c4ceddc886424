#include "tests/host/server/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <thread>
#include <utility>

namespace bonsai::server {
namespace {

constexpr int kTimeoutMs = 30'000;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

std::string Response::header(const std::string &name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::vector<std::string> Response::events() const {
  constexpr std::string_view kName = "event: ", kData = "data: ", kEnd = "\n\n";
  std::vector<std::string> events;
  for (size_t begin = 0, end; (end = body.find(kEnd, begin)) != body.npos; begin = end + kEnd.size()) {
    std::string event = body.substr(begin, end - begin);
    if (event.starts_with(kName)) event.erase(0, event.find('\n') + 1);
    if (event.starts_with(kData)) events.push_back(event.substr(kData.size()));
  }
  return events;
}

Client::Client(uint16_t port, int receive_bytes) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  const sockaddr_in address = loopback(port);
  if (::connect(socket_, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
    ADD_FAILURE() << "cannot connect to port " << port;
    close();
  }
}

Client::~Client() { close(); }

void Client::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void Client::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // the server has closed: what it said before can be read
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Client::request(const std::string &method, const std::string &path, const std::string &body,
                     const std::string &headers) const {
  const std::string length = body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n";
  send(method + " " + path + " HTTP/1.1\r\nHost: here\r\n" + length + headers + "\r\n" + body);
}

bool Client::read_more() {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, kTimeoutMs) != 1) {
    ADD_FAILURE() << "nothing came within 30 s; so far: " << buffer_;
    return false;
  }
  std::array<char, 65536> bytes;
  const ssize_t n = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (n <= 0) return false;
  buffer_.append(bytes.data(), static_cast<size_t>(n));
  return true;
}

bool Client::read_until(std::string_view text) {
  while (buffer_.find(text) == buffer_.npos)
    if (!read_more()) return false;
  return true;
}

bool Client::read_bytes(size_t n) {
  for (const size_t wanted = buffer_.size() + n; buffer_.size() < wanted;)
    if (!read_more()) return false;
  return true;
}

bool Client::is_closed() { return buffer_.empty() && !read_more(); }

std::optional<std::string> Client::take_line() {
  if (!read_until("\r\n")) return std::nullopt;
  const size_t end = buffer_.find("\r\n");
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

bool Client::take(size_t n, std::string &into) {
  while (buffer_.size() < n && read_more()) {
  }
  const size_t there = std::min(n, buffer_.size());
  into.append(buffer_, 0, there);
  buffer_.erase(0, there);
  return there == n;
}

Response Client::response(bool has_body) {
  Response response;
  const auto first = take_line();
  if (!first) return response;
  EXPECT_TRUE(first->starts_with("HTTP/1.1 ")) << *first;
  response.status = std::atoi(first->substr(9, 3).c_str());
  for (auto line = take_line(); line && !line->empty(); line = take_line()) {
    const size_t colon = line->find(": ");
    std::string name = line->substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = line->substr(colon + 2);
  }
  if (!has_body || response.status == 204 || response.status == 100) {
    response.is_complete = true;
  } else if (response.header("transfer-encoding") == "chunked") {
    for (auto line = take_line(); line; line = take_line()) {
      const size_t length = std::stoul(*line, nullptr, 16);
      std::string chunk;
      if (!take(length + 2, chunk)) break;
      response.body.append(chunk, 0, length);
      response.is_complete = length == 0;
      if (response.is_complete) break;
    }
  } else if (const std::string length = response.header("content-length"); !length.empty()) {
    response.is_complete = take(std::stoul(length), response.body);
  } else {
    while (read_more()) {
    }
    response.body = std::exchange(buffer_, "");
    response.is_complete = true;  // as far as anybody can tell
  }
  return response;
}

Response Client::get(const std::string &path, const std::string &headers) {
  request("GET", path, "", headers);
  return response();
}

Response Client::post(const std::string &path, const std::string &body, const std::string &headers) {
  request("POST", path, body, headers);
  return response();
}

bool comes_true(const std::function<bool()> &what) {
  for (int i = 0; i < 30'000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (what()) return true;
  return false;
}

uint16_t unused_port() {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(taken, reinterpret_cast<const sockaddr *>(&address), length), 0);
  EXPECT_EQ(::getsockname(taken, reinterpret_cast<sockaddr *>(&address), &length), 0);
  ::close(taken);
  return ntohs(address.sin_port);
}

}  // namespace bonsai::server

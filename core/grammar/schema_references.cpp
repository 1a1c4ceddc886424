#include "core/grammar/schema_references.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "core/base/utf8.h"

namespace bonsai::grammar {
namespace {

// Bytes of all references that are written anew.
constexpr size_t kMostWritten = size_t{1} << 20;

// Keywords whose value is a schema or a list of them, and those whose members are.
constexpr std::array<std::string_view, 16> kOfSchemas = {"items",
                                                         "prefixItems",
                                                         "additionalItems",
                                                         "unevaluatedItems",
                                                         "contains",
                                                         "additionalProperties",
                                                         "allOf",
                                                         "anyOf",
                                                         "oneOf",
                                                         "propertyNames",
                                                         "not",
                                                         "unevaluatedProperties",
                                                         "if",
                                                         "then",
                                                         "else",
                                                         "contentSchema"};
constexpr std::array<std::string_view, 6> kOfNamedSchemas = {"properties",  "patternProperties", "$defs",
                                                             "definitions", "dependentSchemas",  "dependencies"};

template <size_t n>
bool is_among(const std::array<std::string_view, n> &names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_text(const Json &object, const char *keyword) {
  return object.is_object() && object.contains(keyword) && object[keyword].is_string();
}

// What differs between drafts.
struct Draft {
  const char *identifier = "$id";
  bool ref_stands_alone = false;  // what is beside it counts for nothing
};

Draft draft_of(const Json &schema, Draft otherwise) {
  if (!has_text(schema, "$schema")) return otherwise;
  const auto &uri = schema["$schema"].get_ref<const std::string &>();
  const auto is = [&](const char *name) { return uri.find(name) != uri.npos; };
  if (is("draft-03") || is("draft-04")) return {"id", true};
  return {"$id", is("draft-06") || is("draft-07")};
}

// One that begins with '#' is a name within the document.
bool is_identified(const Json &schema, Draft draft) {
  return has_text(schema, draft.identifier) &&
         !schema[draft.identifier].get_ref<const std::string &>().starts_with('#') &&
         !(draft.ref_stands_alone && schema.contains("$ref"));
}

bool mentions_identifier(const Json &value) {
  if (has_text(value, "$id") || has_text(value, "id")) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(), mentions_identifier);
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_letter_digit_or(std::string_view others, char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || others.find(c) != others.npos;
}

// Whether a URI is the same one whatever it is relative to.
bool is_absolute(std::string_view uri) {
  const std::string_view scheme = uri.substr(0, std::min(uri.find(':'), uri.size()));
  return scheme.size() < uri.size() && !scheme.empty() && is_letter(scheme.front()) &&
         std::all_of(scheme.begin(), scheme.end(), [](char c) { return is_letter_digit_or("+-.", c); });
}

// Relative to a URI that ends in it, it is that URI.
bool is_file_name(std::string_view uri) {
  return uri.find_first_not_of('.') != uri.npos &&
         std::all_of(uri.begin(), uri.end(), [](char c) { return is_letter_digit_or("-_.", c); });
}

std::string_view without_fragment(std::string_view uri) { return uri.substr(0, std::min(uri.find('#'), uri.size())); }

class References {
 public:
  explicit References(Json &document) { add(document, {.draft = draft_of(document, {})}); }

  SchemaResult<void> begin_at_root() {
    // Those that are schemas by their place come first, so that what references lead to tells them apart.
    find_schemas();
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (!has_text(*nodes_[node].schema, "$ref")) continue;
      if (auto ok = rewrite(node); !ok) return ok;
      find_schemas();
    }
    return {};
  }

 private:
  struct Node {
    Json *schema = nullptr;
    size_t parent = 0;
    std::string path = {};  // from there
    size_t base = 0;        // the node of the nearest schema with an identifier, or the root
    Draft draft = {};
  };

  void add(Json &schema, Node node) {
    if (!schema.is_object() || !numbers_.try_emplace(&schema, nodes_.size()).second) return;
    node.schema = &schema;
    const Draft own = draft_of(schema, node.draft);
    if (is_identified(schema, own)) {
      node.base = nodes_.size();
      node.draft = own;
    }
    nodes_.push_back(std::move(node));
  }

  void add_below(size_t parent, std::string path, Json &schema) {
    add(schema,
        {.parent = parent, .path = std::move(path), .base = nodes_[parent].base, .draft = nodes_[parent].draft});
  }

  void find_schemas() {
    for (; n_searched_ < nodes_.size(); ++n_searched_) {
      for (const auto &[keyword, value] : nodes_[n_searched_].schema->items()) {
        const bool is_named = is_among(kOfNamedSchemas, keyword);
        if (!is_named && !is_among(kOfSchemas, keyword)) continue;
        const std::string path = as_pointer(keyword);
        if (!is_named) add_below(n_searched_, path, value);
        if (is_named ? !value.is_object() : !value.is_array()) continue;
        for (const auto &[name, part] : value.items()) add_below(n_searched_, path + as_pointer(name), part);
      }
    }
  }

  std::string pointer_of(size_t node) const {
    std::vector<const std::string *> paths;
    for (; node != 0; node = nodes_[node].parent) paths.push_back(&nodes_[node].path);
    std::string pointer;
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) pointer += **path;
    return pointer;
  }

  bool has_uri(size_t node, std::string_view uri, bool is_base) const {
    const Node &named = nodes_[node];
    if (!is_identified(*named.schema, named.draft)) return false;
    const auto &own = (*named.schema)[named.draft.identifier].get_ref<const std::string &>();
    return uri == without_fragment(own) && (is_absolute(uri) || (is_base && is_file_name(uri)));
  }

  SchemaResult<void> rewrite(size_t node) {
    const std::string text = (*nodes_[node].schema)["$ref"];
    const std::string_view uri = without_fragment(text);
    const std::string fragment = without_percents(std::string_view(text).substr(std::min(uri.size() + 1, text.size())));
    size_t base = nodes_[node].base;
    if (!uri.empty() && !has_uri(base, uri, true)) {
      if (!has_uri(0, uri, false)) return {};
      base = 0;
    }
    if (!fragment.empty() && fragment.front() != '/') return {};
    if (auto ok = follow(node, base, fragment); !ok) return ok;
    if (uri.empty() && base == 0) return {};
    std::string rewritten = "#";
    for (const char c : pointer_of(base) + fragment) c == '%' ? rewritten += "%25" : rewritten += c;
    n_written_ += rewritten.size();
    if (n_written_ > kMostWritten)
      return fail_at(pointer_of(node), "too large: '$ref's below '$id's take more than {} bytes", kMostWritten);
    (*nodes_[node].schema)["$ref"] = std::move(rewritten);
    return {};
  }

  // What the reference leads to is a schema, also where it is none by its place.
  SchemaResult<void> follow(size_t node, size_t base, const std::string &fragment) {
    size_t last = base;  // schema on the way
    Json *at = nodes_[base].schema;
    std::string path;  // from there
    for (const std::string &name : names_of_pointer(fragment)) {
      at = const_cast<Json *>(part_of(*at, name));  // of the document, which is not constant
      if (at == nullptr) return {};                 // an error only if it is used
      path += as_pointer(name);
      if (const auto known = numbers_.find(at); known != numbers_.end()) {
        last = known->second;
        path.clear();
      } else if (is_identified(*at, nodes_[last].draft)) {
        return fail_at(pointer_of(node), "'$ref': {} leads through {}, where {} may be a schema's identifier or not",
                       bonsai::quoted("#" + fragment), bonsai::quoted("#" + pointer_of(last) + path),
                       bonsai::quoted(nodes_[last].draft.identifier));
      }
    }
    add_below(last, std::move(path), *at);
    return {};
  }

  std::vector<Node> nodes_;
  std::unordered_map<const Json *, size_t> numbers_;
  size_t n_searched_ = 0, n_written_ = 0;
};

}  // namespace

std::string without_percents(std::string_view text) {
  const auto is_hex = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && is_hex(text[i + 1]) && is_hex(text[i + 2])) {
      plain += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<std::string> names_of_pointer(std::string_view pointer) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < pointer.size();) {
    const size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    std::string &name = names.emplace_back(pointer.substr(begin + 1, end - begin - 1));
    for (size_t i = 0; (i = name.find('~', i)) != name.npos; ++i)
      if (i + 1 < name.size()) name.replace(i, 2, name[i + 1] == '1' ? "/" : "~");  // "~01" is "~1"
    begin = end;
  }
  return names;
}

std::string as_pointer(std::string_view name) {
  std::string made = "/";
  for (const char c : name) c == '~' ? made += "~0" : c == '/' ? made += "~1" : made += c;
  return made;
}

const Json *part_of(const Json &value, const std::string &name) {
  if (value.is_object() && value.contains(name)) return &value.at(name);
  const bool is_index =
      value.is_array() && !name.empty() && name.size() < 6 && name.find_first_not_of("0123456789") == name.npos;
  return is_index && std::stoul(name) < value.size() ? &value.at(std::stoul(name)) : nullptr;
}

SchemaResult<void> begin_references_at_root(Json &document) {
  if (!document.is_object() || !mentions_identifier(document)) return {};
  return References(document).begin_at_root();
}

}  // namespace bonsai::grammar

// The roofline picture as a file: well-formed, complete, and with everything where the axes say it is.
#include "host/bench/roofline.h"

#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

namespace bonsai::bench {
namespace {

using Tree = boost::property_tree::ptree;

Roofline example() {
  return {.title = "A model",
          .subtitle = "cpu, kernel avx2, 2 threads",
          .roofs = {{"20 GB/s", 20e9}, {"50 GB/s", 50e9}},
          .ceilings = {{"int8 peak", 1e12}, {"FMA peak", 4e11}},
          .points = {{"decode", 10, 1e11}, {"prefill", 1000, 2e11}}};
}

Tree parse(const std::string &svg) {
  std::istringstream stream(svg);
  Tree tree;
  boost::property_tree::read_xml(stream, tree);  // throws where the text is no XML
  return tree.get_child("svg");
}

// Every text of the picture, with where it begins, ends or has its middle.
std::map<std::string, std::pair<double, double>> texts(const Tree &tree) {
  std::map<std::string, std::pair<double, double>> found;
  for (const auto &[name, node] : tree) {
    if (name == "text")
      found[node.data()] = {node.get<double>("<xmlattr>.x"), node.get<double>("<xmlattr>.y")};
    else
      found.merge(texts(node));
  }
  return found;
}

TEST(Roofline, NamesTitleAxesRoofsPointsAndDecades) {
  const auto found = texts(parse(to_svg(example())));
  for (const char *label :
       {"A model", "cpu, kernel avx2, 2 threads", "operations per byte", "operations per second", "20 GB/s", "50 GB/s",
        "int8 peak", "FMA peak", "decode", "prefill", "1", "10", "1 k", "10 G", "1 T"})
    EXPECT_TRUE(found.count(label)) << label;
}

// 10 operations per byte lie on the grid line of that name, and 10^11 a second likewise.
TEST(Roofline, APointLiesWhereTheAxesSay) {
  const Tree tree = parse(to_svg(example()));
  const auto found = texts(tree);
  const Tree &decode = tree.get_child("circle.<xmlattr>");
  EXPECT_NEAR(decode.get<double>("cx"), found.at("10").first, 0.1);
  EXPECT_NEAR(decode.get<double>("cy"), found.at("100 G").second - 5, 0.1);  // a label stands 5 beneath its line
}

// The lines that are neither grid nor frame.
struct Line {
  double x1, y1, x2, y2;
};
std::vector<Line> limits(const Tree &tree) {
  std::vector<Line> lines;
  for (const auto &[name, node] : tree) {
    if (name != "line" || node.get<std::string>("<xmlattr>.stroke") != "#1f5fa8") continue;
    const Tree &at = node.get_child("<xmlattr>");
    lines.push_back({at.get<double>("x1"), at.get<double>("y1"), at.get<double>("x2"), at.get<double>("y2")});
  }
  return lines;
}

// 20 GB/s allow 10^12 operations a second from 50 operations per byte on, and 4 * 10^11 from 20.
TEST(Roofline, ACeilingBeginsAtTheFirstRoofWhichEndsAtTheHighest) {
  const Tree tree = parse(to_svg(example()));
  const auto found = texts(tree);
  const double ten = found.at("10").first, decade = found.at("100").first - ten;
  const double trillion = found.at("1 T").second - 5;
  const std::vector<Line> lines = limits(tree);
  ASSERT_EQ(lines.size(), 4u);
  const Line &first = lines[0], &second = lines[1], &int8 = lines[2], &fma = lines[3];
  EXPECT_NEAR(first.x2, ten + decade * std::log10(5), 0.1);
  EXPECT_NEAR(first.y2, trillion, 0.1);
  EXPECT_NEAR(int8.x1, first.x2, 0.1);
  EXPECT_NEAR(int8.y1, trillion, 0.1);
  EXPECT_EQ(int8.y1, int8.y2);
  EXPECT_EQ(int8.x2, 870) << "the right edge";
  EXPECT_NEAR(fma.x1, ten + decade * std::log10(2), 0.1);
  EXPECT_EQ(fma.y1, fma.y2);
  EXPECT_GT(fma.y1, int8.y1) << "lower";
  EXPECT_EQ(second.y2, 90) << "no ceiling belongs to the second roof: it leaves the plot";
}

TEST(Roofline, WithoutCeilingsARoofLeavesThePlot) {
  Roofline roofline = example();
  roofline.ceilings.clear();
  const std::vector<Line> lines = limits(parse(to_svg(roofline)));
  ASSERT_EQ(lines.size(), 2u);
  for (const Line &line : lines) EXPECT_TRUE(line.x2 == 870 || line.y2 == 90) << line.x2 << ", " << line.y2;
}

TEST(Roofline, WithoutRoofsACeilingGoesAllTheWay) {
  Roofline roofline = example();
  roofline.roofs.clear();
  const std::vector<Line> lines = limits(parse(to_svg(roofline)));
  ASSERT_EQ(lines.size(), 2u);
  for (const Line &line : lines) EXPECT_EQ(line.x1, 110);
  roofline.ceilings.clear();
  EXPECT_TRUE(limits(parse(to_svg(roofline))).empty());
}

TEST(Roofline, NamesCannotBreakTheDocument) {
  Roofline roofline = example();
  roofline.title = "<b> & \"c\" 'd' \x01 \xC3\xA9";
  roofline.subtitle = "\xFF broken";
  const auto found = texts(parse(to_svg(roofline)));
  EXPECT_TRUE(found.count("<b> & \"c\" 'd' ? \xC3\xA9"));
  EXPECT_TRUE(found.count("?"));
}

TEST(Roofline, AnyMagnitudeStaysInsideThePicture) {
  for (const double scale : {1e-3, 1.0, 1e6}) {
    Roofline roofline = example();
    for (auto &roof : roofline.roofs) roof.bytes_per_second *= scale;
    for (auto &point : roofline.points) point.operations_per_second *= scale;
    roofline.points.push_back({"alone", 0.02 * scale, 3 * scale});
    const Tree tree = parse(to_svg(roofline));
    for (const auto &[name, node] : tree) {
      if (name != "circle" && name != "line") continue;
      for (const auto &[key, value] : node.get_child("<xmlattr>")) {
        const bool is_x = key == "cx" || key == "x1" || key == "x2", is_y = key == "cy" || key == "y1" || key == "y2";
        if (is_x || is_y) {
          EXPECT_GE(value.get_value<double>(), is_x ? 110 : 90) << key;
          EXPECT_LE(value.get_value<double>(), is_x ? 870 : 530) << key;
        }
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::bench

// A roofline picture (Williams, Waterman and Patterson, 2009): what a machine allows at each number of operations per
// byte, and where the measured work lies beneath it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace bonsai::bench {

struct Roofline {
  std::string title;     // what was measured
  std::string subtitle;  // on what

  // A sloped line: performance that this many bytes per second allow.
  struct Roof {
    std::string label;
    double bytes_per_second;
  };
  std::vector<Roof> roofs;

  // A horizontal line: performance that the arithmetic units allow. Ceilings belong to the first roof: they begin at
  // its slope, and it ends at the highest.
  struct Ceiling {
    std::string label;
    double operations_per_second;
  };
  std::vector<Ceiling> ceilings;

  struct Point {
    std::string label;
    double operations_per_byte;
    double operations_per_second;
  };
  std::vector<Point> points;
};

// The picture as one SVG document that needs nothing else: both axes logarithmic, over whole decades that hold every
// point and every ceiling with its beginning. The first roof and the first ceiling are drawn bold. Precondition: all
// numbers are finite and greater than 0; at least one point.
std::string to_svg(const Roofline &roofline);

}  // namespace bonsai::bench

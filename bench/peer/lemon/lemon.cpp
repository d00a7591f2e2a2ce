// Solves DIMACS minimum-cost-flow problems with LEMON and prints, for each file
// and algorithm, one line: algorithm, status, objective, wall and processor
// milliseconds of run() alone.
//
// usage: lemon ALGORITHM[,ALGORITHM] FILE...

#include <lemon/cost_scaling.h>
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

struct Arc {
  int tail, head;
  long long lower, upper, cost;  // upper < 0: none
};

struct Problem {
  std::vector<long long> supply;
  std::vector<Arc> arcs;

  // What no optimal flow without needless cycles exceeds: CostScaling takes an arc of
  // negative cost without a bound for an unbounded problem, so it is given this one.
  long long most() const {
    long long sum = 0;
    bool fits = true;
    auto add = [&](long long n) { fits = fits && !__builtin_add_overflow(sum, n, &sum); };
    for (long long s : supply) add(std::max(s, 0LL));
    for (const Arc &a : arcs) add(std::max(std::llabs(a.lower), a.upper));
    return fits ? sum : -1;
  }
  bool bare() const {
    return std::any_of(arcs.begin(), arcs.end(), [](const Arc &a) { return a.upper < 0 && a.cost < 0; });
  }
};

static bool read(const char *path, Problem &p) {
  FILE *f = std::fopen(path, "r");
  if (!f) return false;
  char line[512];
  while (std::fgets(line, sizeof line, f)) {
    char *at = line + 1;
    auto next = [&at] { return std::strtoll(at, &at, 10); };
    if (line[0] == 'p') {
      at = std::strstr(line, "min");
      if (!at) break;
      at += 3;
      p.supply.assign(next(), 0);
      p.arcs.reserve(next());
    } else if (line[0] == 'n') {
      long long id = next();
      p.supply[id - 1] = next();
    } else if (line[0] == 'a') {
      Arc a;
      a.tail = next() - 1, a.head = next() - 1;
      a.lower = next(), a.upper = next(), a.cost = next();
      p.arcs.push_back(a);
    }
  }
  std::fclose(f);
  return !p.supply.empty();
}

// 32-bit numbers, LEMON's default, are the faster ones: taken where costs times
// nodes and all amounts stay within them.
static bool narrow(const Problem &p) {
  const long long limit = std::numeric_limits<int>::max() / 4;
  long long cost = 0, amount = 0;
  for (const Arc &a : p.arcs) {
    cost = std::max(cost, std::llabs(a.cost));
    amount = std::max(amount, std::max(a.lower, a.upper));
  }
  if (p.bare()) amount = std::max(amount, p.most());
  for (long long s : p.supply)
    if (s > 0) amount += s;
  return amount < limit && cost < limit / (long long)(p.supply.size() + 1);
}

template <class Algorithm>
static void solve(const char *name, const Problem &p, long long bare = -1) {
  typedef typename Algorithm::Value Value;
  lemon::SmartDigraph g;
  g.reserveNode(p.supply.size());
  g.reserveArc(p.arcs.size());
  for (size_t i = 0; i < p.supply.size(); i++) g.addNode();
  for (const Arc &a : p.arcs) g.addArc(g.nodeFromId(a.tail), g.nodeFromId(a.head));

  Algorithm algorithm(g);
  lemon::SmartDigraph::ArcMap<Value> lower(g), upper(g), cost(g);
  lemon::SmartDigraph::NodeMap<Value> supply(g);
  for (size_t i = 0; i < p.arcs.size(); i++) {
    auto a = g.arcFromId(i);
    lower[a] = p.arcs[i].lower;
    long long most = p.arcs[i].upper < 0 && p.arcs[i].cost < 0 ? bare : p.arcs[i].upper;
    upper[a] = most < 0 ? algorithm.INF : Value(most);
    cost[a] = p.arcs[i].cost;
  }
  for (size_t i = 0; i < p.supply.size(); i++) supply[g.nodeFromId(i)] = p.supply[i];
  algorithm.lowerMap(lower).upperMap(upper).costMap(cost).supplyMap(supply);

  std::clock_t cpu = std::clock();
  auto wall = std::chrono::steady_clock::now();
  auto outcome = algorithm.run();
  std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - wall;
  double processor = 1e3 * (std::clock() - cpu) / CLOCKS_PER_SEC;
  bool optimal = outcome == Algorithm::OPTIMAL;
  std::printf("%s %s %lld %.3f %.3f\n", name, optimal ? "optimal" : "other",
              optimal ? (long long)algorithm.template totalCost<long long>() : 0LL, elapsed.count(), processor);
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s ALGORITHM[,ALGORITHM] FILE...\n", argv[0]);
    return 2;
  }
  const std::string wanted = std::string(",") + argv[1] + ",";
  auto want = [&wanted](const char *name) { return wanted.find(std::string(",") + name + ",") != std::string::npos; };
  typedef lemon::SmartDigraph G;
  for (int i = 2; i < argc; i++) {
    Problem p;
    if (!read(argv[i], p)) {
      std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
      return 1;
    }
    bool small = narrow(p);
    if (want("networksimplex")) {
      if (small)
        solve<lemon::NetworkSimplex<G, int, int>>("networksimplex", p);
      else
        solve<lemon::NetworkSimplex<G, long long, long long>>("networksimplex", p);
    }
    if (want("costscaling")) {
      if (small)
        solve<lemon::CostScaling<G, int, int>>("costscaling", p, p.most());
      else
        solve<lemon::CostScaling<G, long long, long long>>("costscaling", p, p.most());
    }
  }
}

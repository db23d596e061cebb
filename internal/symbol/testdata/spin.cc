// Spin burns time in templates, methods and lambdas until its input ends.
#include <algorithm>
#include <numeric>
#include <poll.h>
#include <string>
#include <vector>

namespace spin {

template <typename T> struct Ring {
	std::vector<T> items;
	explicit Ring(std::size_t n) : items(n) { std::iota(items.begin(), items.end(), T{1}); }
	T fold(T seed) const
	{
		return std::accumulate(items.begin(), items.end(), seed, [](T a, T b) { return a * 31 + (b ^ (a >> 7)); });
	}
};

namespace {
__attribute__((noinline)) unsigned turn(Ring<unsigned> &ring, unsigned seed)
{
	std::rotate(ring.items.begin(), ring.items.begin() + seed % ring.items.size(), ring.items.end());
	std::sort(ring.items.begin(), ring.items.end(), [](unsigned a, unsigned b) { return a * 2654435761u < b * 2654435761u; });
	return ring.fold(seed);
}
} // namespace

__attribute__((noinline)) unsigned words(unsigned seed)
{
	std::string s = std::to_string(seed);
	return static_cast<unsigned>(std::count(s.begin(), s.end(), '1'));
}

} // namespace spin

int main()
{
	struct pollfd in = {0, POLLIN, 0};
	spin::Ring<unsigned> ring(512);
	unsigned x = 1;
	while (poll(&in, 1, 0) == 0)
		for (int i = 0; i < 1000; i++)
			x = spin::turn(ring, x) + spin::words(x);
	return x == 3;
}

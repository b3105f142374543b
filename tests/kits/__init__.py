"""What the tests play with: fake tools and libraries, nodes, servers, clocks, attackers; and what they read with."""

"""Writes core/lower/chebyshev.inc: Chebyshev series of the special functions that XLA does not have.

    python tools/chebyshev.py > core/lower/chebyshev.inc          (needs mpmath)

Each series is of a smooth function of t in [-1, 1]; special.c says which. Coefficients c[0] .. c[n-1] of
T_0 .. T_(n-1), c[0] already halved, cut where they no longer count in double precision.
"""

import mpmath as mp

mp.mp.dps = 40
N = 64


def series(f):
    nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / N) for k in range(N)]
    values = [f(t) for t in nodes]
    c = [
        2 * mp.fsum(values[k] * mp.cos(mp.pi * j * (k + mp.mpf(1) / 2) / N) for k in range(N)) / N
        for j in range(N)
    ]
    c[0] /= 2
    top = max(abs(v) for v in c)
    n = max(j for j in range(N) if abs(c[j]) > top * mp.mpf(10) ** -17) + 1
    return c[:n]


def near(f, limit):  # x = limit * (t + 1) / 2
    return lambda t: f(limit * (t + 1) / 2)


def far(f, limit):  # limit / x = (t + 1) / 2
    return lambda t: f(2 * limit / (t + 1)) if t > -1 else f(mp.mpf(10) ** 30)


def square(f, limit):  # x = limit * sqrt((t + 1) / 2)
    return lambda t: f(limit * mp.sqrt((t + 1) / 2))


def amplitude(order, part):
    """P and Q of J = sqrt(2 / (pi x)) (P cos - Q sin)(x - shift) by (8 / x)^2; Q is divided by 8 / x."""

    def f(t):
        x = 8 / mp.sqrt((t + 1) / 2)
        a = x - mp.pi * (2 * order + 1) / 4
        s = mp.sqrt(mp.pi * x / 2)
        j, y = s * mp.besselj(order, x), s * mp.bessely(order, x)
        return j * mp.cos(a) + y * mp.sin(a) if part == "p" else (y * mp.cos(a) - j * mp.sin(a)) * x / 8

    return f


def y_rest(order):
    def f(x):
        log = 2 / mp.pi * mp.log(x / 2) * mp.besselj(order, x)
        return mp.bessely(0, x) - log if order == 0 else (mp.bessely(1, x) - log + 2 / (mp.pi * x)) / x

    return f


def k_rest(order):
    def f(x):
        log = mp.log(x / 2) * mp.besseli(order, x)
        return mp.besselk(0, x) + log if order == 0 else (mp.besselk(1, x) - log) * x

    return f


TABLES = {
    "i0e_near": near(lambda x: mp.exp(-x) * mp.besseli(0, x), 8),
    "i0e_far": far(lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(0, x), 8),
    "i1e_near": near(lambda x: mp.exp(-x) * (mp.besseli(1, x) / x if x else mp.mpf(1) / 2), 8),
    "i1e_far": far(lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(1, x), 8),
    "k0_rest": square(k_rest(0), 2),
    "k0e_far": far(lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(0, x), 2),
    "k1_rest": square(k_rest(1), 2),
    "k1e_far": far(lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(1, x), 2),
    "j0_near": square(lambda x: mp.besselj(0, x), 8),
    "j1_near": square(lambda x: mp.besselj(1, x) / x, 8),
    "y0_rest": square(y_rest(0), 8),
    "y1_rest": square(y_rest(1), 8),
    "p0": amplitude(0, "p"),
    "q0": amplitude(0, "q"),
    "p1": amplitude(1, "p"),
    "q1": amplitude(1, "q"),
    # (1 + 2 x) erfcx(x) for x >= 0, t = (x - 3.75) / (x + 3.75)
    "erfcx": lambda t: (lambda x: (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x))(
        mp.mpf("3.75") * (1 + t) / (1 - t)
    ),
}

print("/* Written by tools/chebyshev.py; do not edit. */")
for name, f in TABLES.items():
    print(f"static const double cheb_{name}[] = {{")
    c = [mp.nstr(v, 19, min_fixed=1, max_fixed=0) for v in series(f)]
    for i in range(0, len(c), 4):
        print("    " + " ".join(v + "," for v in c[i : i + 4]))
    print("};")

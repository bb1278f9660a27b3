//! The normal distribution and, for few blocks or runs, Student's t.

/// Degrees of freedom from which the expansion is used.
const EXPANDED_FROM: f64 = 10.0;
/// Stripes of an integral: of 200 its relative error is below 1e-4.
const STRIPES: usize = 200;
/// They leave 1e-12 of a right angle.
const HALVINGS: usize = 40;

/// How much of a normal distribution lies above `z`. The relative error is below 1.2e-7
/// (Press et al., Numerical Recipes, `erfcc`).
pub(crate) fn upper_tail(z: f64) -> f64 {
    const TERMS: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];

    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let sum = TERMS.iter().fold(0.0, |sum, term| sum * t + term);
    let tail = 0.5 * t * (sum - x * x).exp();
    if z < 0.0 { 1.0 - tail } else { tail }
}

/// Above which value `tail` (at most a half) of a normal distribution lies.
pub(crate) fn upper_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    // Sixty halvings of 40 leave less than one unit in the last place.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if upper_tail(middle) > tail { low = middle } else { high = middle }
    }
    high
}

/// The value of Student's t above which as much lies as above `z` of a normal distribution
/// (Abramowitz and Stegun 26.7.5; within 1 % for 10 degrees of freedom and `z` up to 3.5).
pub(crate) fn student(z: f64, degrees: f64) -> f64 {
    // Of two degrees, and 0.1 % above, the expansion is off by half.
    if degrees < EXPANDED_FROM {
        return integrated(upper_tail(z), degrees);
    }
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + (first + (second + third / degrees) / degrees) / degrees
}

/// The value of Student's t above which `tail` lies, from its density over the angle whose tangent
/// is t over the root of the degrees: a power of the cosine.
fn integrated(tail: f64, degrees: f64) -> f64 {
    // Angles from the far end, where the power of the sine is small: no digits cancel.
    let below = |angle: f64| {
        let width = angle / STRIPES as f64;
        let middle = |n: usize| ((n as f64 + 0.5) * width).sin().powf(degrees - 1.0);
        (0..STRIPES).map(middle).sum::<f64>() * width
    };
    let right = std::f64::consts::FRAC_PI_2;
    let wanted = 2.0 * tail * below(right);

    let (mut low, mut high) = (0.0, right);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if below(middle) < wanted { low = middle } else { high = middle }
    }
    degrees.sqrt() / high.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_printed_tables() {
        for (z, tail) in [(0.0, 0.5), (1.644_854, 0.05), (1.959_964, 0.025), (3.090_232, 0.001)] {
            assert!((upper_tail(z) - tail).abs() < 1e-6, "{z}: {}", upper_tail(z));
            assert!((upper_quantile(tail) - z).abs() < 1e-5, "{tail}: {}", upper_quantile(tail));
        }
        for (z, degrees, t) in [
            (1.959_964, 19.0, 2.093),
            (2.575_829, 19.0, 2.861),
            (1.959_964, 1e6, 1.960),
            (1.959_964, 2.0, 4.303),
            (2.575_829, 4.0, 4.604),
            (3.090_232, 2.0, 22.327),
            (1.959_964, 9.0, 2.262),
        ] {
            assert!((student(z, degrees) - t).abs() < 2e-3, "{degrees}: {}", student(z, degrees));
        }
    }
}

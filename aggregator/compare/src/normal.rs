//! The normal distribution and, for few blocks, Student's t.

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
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + (first + (second + third / degrees) / degrees) / degrees
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
        for (z, degrees, t) in
            [(1.959_964, 19.0, 2.093), (2.575_829, 19.0, 2.861), (1.959_964, 1e6, 1.960)]
        {
            assert!((student(z, degrees) - t).abs() < 2e-3, "{degrees}: {}", student(z, degrees));
        }
    }
}

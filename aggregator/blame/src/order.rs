//! Order statistics: medians that are the same in whatever order the values come.

/// The median, or the mean of the two in the middle; `None` without values. Reorders them.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return Some(*upper);
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(0.5 * (lower + *upper))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn medians_are_those_of_small_tables() {
        for (mut values, middle) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![3.0, 1.0], Some(2.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
            (vec![1.0, 100.0, 2.0, 4.0], Some(3.0)),
        ] {
            assert_eq!(median(&mut values), middle);
        }
    }

    proptest! {
        #[test]
        fn the_median_is_that_of_sorted_values(
            mut values in prop::collection::vec(-1e3_f64..1e3, 1..40),
        ) {
            let found = median(&mut values).unwrap();
            values.sort_by(f64::total_cmp);
            let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
            prop_assert_eq!(found, 0.5 * (low + high));
        }
    }
}

//! Packed distributions, compared with histograms of the same samples.

use proptest::prelude::*;

use crate::histogram::{Histogram, Over, Packed, layout};

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.watch(&[18_000_000]);
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

proptest! {
    #[test]
    fn packed_distributions_merge_as_histograms_do(
        one in prop::collection::vec(0..=layout::MAX_NS, 0..100),
        two in prop::collection::vec(1_000_000..40_000_000_u64, 1..100),
        limit in 0..50_000_000_u64,
    ) {
        let mut both = Packed::from(&histogram(&one));
        both.merge(&Packed::from(&histogram(&two)));
        let values = [one, two].concat();
        let expected = histogram(&values);
        prop_assert_eq!(&both, &Packed::from(&expected));
        let mut again = Histogram::default();
        again.merge_packed(&both);
        prop_assert_eq!(&again, &expected);
        let Over { over, uncertain } = both.over(limit);
        let truly = values.iter().filter(|value| **value > limit).count() as u64;
        prop_assert!((over..=over + uncertain).contains(&truly), "{over} {uncertain} {truly}");
        let own = layout::index_of(limit);
        let beside = values.iter().filter(|value| layout::index_of(**value) == own).count();
        prop_assert!(uncertain <= beside as u64);
        let bytes = rmp_serde::to_vec_named(&both).unwrap();
        prop_assert_eq!(rmp_serde::from_slice::<Packed>(&bytes).unwrap(), both);
    }
}

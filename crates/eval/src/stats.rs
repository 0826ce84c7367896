//! Means and percentiles, defined once.

use std::cmp::Ordering;

/// The mean, if there are values.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u64);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

/// The nearest-rank percentile of ascending values: the smallest of them that at least `percent` of 100 do not exceed.
pub(crate) fn percentile(ascending: &[f64], percent: usize) -> Option<f64> {
    let rank = (percent * ascending.len()).div_ceil(100).max(1);
    ascending.get(rank - 1).copied()
}

/// Values in ascending order.
pub(crate) fn ascending(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(|left, right| left.partial_cmp(right).unwrap_or(Ordering::Equal));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        let of = |percent| percentile(&twenty, percent);
        assert_eq!([of(50), of(95), of(96), of(99), of(100)], [10.0, 19.0, 20.0, 20.0, 20.0].map(Some));
        assert_eq!(of(0), Some(1.0));
        assert_eq!(percentile(&[7.0], 95), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
        // In doubles 0.07 * 100 is above 7, which would be one rank too far.
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 7), Some(7.0));
    }

    #[test]
    fn there_is_no_mean_of_nothing() {
        assert_eq!(mean([]), None);
        assert_eq!(mean([1.0, 2.0, 6.0]), Some(3.0));
    }
}

//! Comparing numbers with the tolerance in sight.

/// The largest absolute difference between two lists; infinite if one holds a NaN.
///
/// # Panics
/// If their lengths differ.
pub fn largest_difference(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len(), "lists of different lengths");
    let difference = |(a, b): (&f64, &f64)| {
        let difference = (a - b).abs();
        if difference.is_nan() { f64::INFINITY } else { difference }
    };
    left.iter().zip(right).map(difference).fold(0.0, f64::max)
}

/// Asserts that no two numbers are further apart than `tolerance`.
///
/// # Panics
/// If they are, naming `what`.
#[track_caller]
pub fn assert_close(what: &str, left: &[f64], right: &[f64], tolerance: f64) {
    let difference = largest_difference(left, right);
    assert!(difference <= tolerance, "{what}: differs by {difference:e}, {tolerance:e} allowed\n{left:?}\n{right:?}");
}

/// Differences of many comparisons, for limits on their median and maximum.
#[derive(Debug, Clone, Default)]
pub struct Closeness(Vec<f64>);

impl Closeness {
    /// Adds the largest difference of one comparison.
    pub fn add(&mut self, difference: f64) {
        self.0.push(difference);
    }

    /// How many comparisons there were.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The median difference.
    ///
    /// # Panics
    /// If there were none.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// The largest difference.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

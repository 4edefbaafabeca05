//! Buckets: ranges of row counts that share a choice of kernel.

/// The bucket of a row count: the smallest of 1, 4, 16, 64, 256, ... that is not below it.
pub fn bucket(rows: u32) -> u32 {
    let power = rows.max(1).next_power_of_two();
    if power.trailing_zeros().is_multiple_of(2) { power } else { power.saturating_mul(2) }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn a_row_count_falls_into_the_next_larger_bucket() {
        assert_eq!([0, 1, 2, 4, 5, 16, 17, 64, 65, 256, 257].map(bucket), [1, 1, 4, 4, 16, 16, 64, 64, 256, 256, 1024]);
    }
}

//! Which texts are read together.

use std::ops::Range;

/// Divides texts of these lengths, in order, into groups of at most `most` texts and `budget` tokens; a text beyond the
/// budget is a group of its own.
pub(super) fn groups(lengths: &[usize], budget: usize, most: usize) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut tokens = 0;
    for (i, &len) in lengths.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if group.len() < most && len <= budget.saturating_sub(tokens) => {
                group.end = i + 1;
                tokens += len;
            }
            _ => {
                groups.push(i..i + 1);
                tokens = len;
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn texts_are_grouped_within_tokens_and_slots() {
        assert_eq!(groups(&[], 10, 3), []);
        assert_eq!(groups(&[4, 6, 1, 30, 2, 2, 2, 2], 10, 3), [0..2, 2..3, 3..4, 4..7, 7..8]);
        assert_eq!(groups(&[1, 1, 1], 10, 1), [0..1, 1..2, 2..3]);
    }
}

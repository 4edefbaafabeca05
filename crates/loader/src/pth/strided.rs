//! Views whose elements follow one another in the storage neither row by row nor column by column: slices of wider
//! tensors, expanded vectors, permuted sizes. Small ones are copied into memory, row by row.

use std::ops::Range;
use std::sync::Arc;

/// The most bytes that are copied of one file; and never more than it has, whatever its views repeat.
const MAX_GATHERED: usize = 64 << 20;

/// Copies views of the tensors of one file.
pub(super) struct Gatherer<'a> {
    file: &'a [u8],
    /// Bytes that may still be copied.
    left: usize,
}

/// A view: its first element in the file, the bytes of an element, sizes and strides (both of one length).
pub(super) struct View<'a> {
    pub(super) start: usize,
    pub(super) element: usize,
    pub(super) dims: &'a [usize],
    pub(super) strides: &'a [usize],
}

/// Where a view lies in the file, from its first element to its last, and its elements row by row.
pub(super) struct Gathered {
    pub(super) span: Range<usize>,
    pub(super) bytes: Arc<[u8]>,
}

impl View<'_> {
    /// From the first element to the last; `None` if it has none, or the numbers overflow.
    pub(super) fn span(&self) -> Option<Range<usize>> {
        let last = self
            .dims
            .iter()
            .zip(self.strides)
            .try_fold(0usize, |last, (&dim, &stride)| last.checked_add(dim.checked_sub(1)?.checked_mul(stride)?))?;
        let len = last.checked_add(1)?.checked_mul(self.element)?;
        Some(self.start..self.start.checked_add(len)?)
    }
}

impl<'a> Gatherer<'a> {
    pub(super) fn new(file: &'a [u8]) -> Self {
        Gatherer { file, left: MAX_GATHERED.min(file.len()) }
    }

    /// Copies a view that lies inside the file; `None` if that is more than what is left to copy.
    pub(super) fn gather(&mut self, view: &View<'_>) -> Option<Gathered> {
        let span = view.span()?;
        let source = self.file.get(span.clone())?;
        let len = view.dims.iter().try_fold(view.element, |len, &dim| len.checked_mul(dim))?;
        self.left = self.left.checked_sub(len)?;
        let mut bytes = Vec::with_capacity(len);
        let mut index = vec![0; view.dims.len()];
        while bytes.len() < len {
            let at: usize = index.iter().zip(view.strides).map(|(i, stride)| i * stride).sum();
            bytes.extend_from_slice(&source[at * view.element..][..view.element]);
            for (i, &dim) in index.iter_mut().zip(view.dims).rev() {
                *i += 1;
                if *i < dim {
                    break;
                }
                *i = 0;
            }
        }
        Some(Gathered { span, bytes: Arc::from(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_element_is_where_its_strides_say(sizes in vec((1usize..4, 0usize..5), 0..5), start in 0usize..3) {
            let (dims, strides): (Vec<_>, Vec<_>) = sizes.into_iter().unzip();
            let file: Vec<u8> = (0..=255).flat_map(|i: u8| [i, !i]).collect();
            let view = View { start: 2 * start, element: 2, dims: &dims, strides: &strides };
            let found = Gatherer::new(&file).gather(&view).unwrap();
            let mut wanted = Vec::new();
            for number in 0..dims.iter().product() {
                let mut rest = number;
                let mut at = start;
                for (dim, stride) in dims.iter().zip(&strides).rev() {
                    at += rest % dim * stride;
                    rest /= dim;
                }
                wanted.extend([at as u8, !(at as u8)]);
            }
            prop_assert_eq!(&found.bytes[..], &wanted[..]);
        }
    }

    #[test]
    fn views_too_large_in_total_are_not_copied() {
        let file = [0; 40];
        let (dims, strides) = ([3, 3], [0, 0]);
        let view = View { start: 0, element: 2, dims: &dims, strides: &strides };
        let mut gatherer = Gatherer::new(&file);
        assert_eq!(gatherer.gather(&view).unwrap().bytes.len(), 18);
        assert!(gatherer.gather(&view).is_some());
        assert!(gatherer.gather(&view).is_none());
        for dims in [[usize::MAX, 2], [0, 2], [usize::MAX, usize::MAX]] {
            let view = View { start: 0, element: 2, dims: &dims, strides: &[1, 1] };
            assert!(Gatherer::new(&file).gather(&view).is_none(), "{dims:?}");
        }
    }
}

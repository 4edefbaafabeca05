//! web-rwkv 0.10.20: two matrices of each layer are multiplied by 1.0 on the CPU, in f32.

use crate::engine::{block_on, context};
use safetensors::{Dtype, SafeTensorError};
use web_rwkv::runtime::loader::{Loader, Reader, ReaderTensor};

/// A signalling NaN: arithmetic makes it a quiet one, and a copy leaves it alone. It stands for the time that cannot be
/// asserted.
const SIGNALLING: u16 = 0x7d00;

/// A matrix of 8 x 8.
struct OneMatrix;

impl Reader for OneMatrix {
    fn names(&self) -> Vec<&str> {
        vec!["matrix"]
    }

    fn contains(&self, name: &str) -> bool {
        name == "matrix"
    }

    fn shape(&self, _: &str) -> Result<Vec<usize>, SafeTensorError> {
        Ok(vec![8, 8])
    }

    fn tensor(&self, name: &str) -> Result<ReaderTensor<'_>, SafeTensorError> {
        Ok((Dtype::F16, self.shape(name)?, SIGNALLING.to_le_bytes().repeat(64).into()))
    }
}

/// The first bits of the matrix that is on the device.
fn loaded(discount: Option<f32>) -> u16 {
    let loader = Loader { context: context().clone(), model: OneMatrix, lora: Vec::new() };
    let matrix = match discount {
        Some(discount) => loader.load_matrix_f16_discount("matrix", discount),
        None => loader.load_matrix_f16("matrix"),
    };
    block_on(matrix.unwrap().back()).data()[0].to_bits()
}

#[test]
fn a_matrix_without_discount_is_copied() {
    assert_eq!(loaded(None), SIGNALLING);
}

/// Passes once this is mended; then drop `should_panic`.
#[test]
#[should_panic(expected = "no discount, and other bits")]
fn a_discount_of_one_is_none() {
    assert_eq!(loaded(Some(1.0)), SIGNALLING, "no discount, and other bits");
}

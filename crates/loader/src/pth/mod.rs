//! .pth as `torch.save` writes it since version 1.6: a zip archive with `data.pkl`, a pickle program that describes the
//! tensors, and `data/0`, `data/1`, ...: the storages, uncompressed.

mod archive;
mod error;
mod pickle;
mod state_dict;
mod value;

pub use error::{ArchiveError, PickleError, PthError};

use crate::contents::{About, Contents, Directory, Element, RawTensor, byte_len};
use archive::Archive;
use value::{Heap, Tensor, Value};
use wgoose_graph::Format;

/// Reads everything but the tensors' bytes.
pub(crate) fn read(file: &[u8]) -> Result<Contents, PthError> {
    let archive = Archive::read(file)?;
    let program = archive.program()?;
    read_archive(file, &archive).map_err(|why| {
        match file[program].windows(OPTIMIZER.len()).any(|part| part == OPTIMIZER) {
            true => PthError::Optimizer,
            false => why,
        }
    })
}

/// What an optimizer keeps its settings under, and no model has.
const OPTIMIZER: &[u8] = b"param_groups";

fn read_archive(file: &[u8], archive: &Archive<'_>) -> Result<Contents, PthError> {
    if let Some(order) = archive.get("byteorder")?
        && &file[order] == b"big"
    {
        return Err(PthError::BigEndian);
    }
    let header = archive.program()?;
    let (result, heap) = pickle::run(&file[header.clone()])?;
    let state = state_dict::find(&heap, result)?;

    let mut directory = Directory::new(file.len());
    for (key, value) in heap.pairs(state.dict) {
        match (key, value) {
            (Value::Text(name), Value::Tensor(index)) => {
                directory.insert_raw(name, place(name, heap.tensor_at(index), &heap, archive)?)?;
            }
            (Value::Text(name), _) => return Err(PthError::NotATensor { entry: name.to_owned() }),
            _ => return Err(PthError::NotATensor { entry: format!("{key:?}") }),
        }
    }
    for key in state.beside {
        directory.insert(
            key,
            Element::Other("a dictionary or tensor beside the state dict".to_owned()),
            Vec::new(),
            0,
        )?;
    }
    Ok(Contents {
        directory,
        declared: Vec::new(),
        norm_epsilon: None,
        header,
        vocabulary: None,
        pairs: None,
        about: About::default(),
        part: None,
    })
}

/// Where in the file a tensor lies.
fn place(name: &str, tensor: Tensor<'_>, heap: &Heap<'_>, archive: &Archive<'_>) -> Result<RawTensor, PthError> {
    let (Some(dims), Some(strides)) = (heap.sizes(tensor.dims), heap.sizes(tensor.strides)) else {
        return Err(PthError::Sizes { tensor: name.to_owned() });
    };
    let Some(first_dim_fastest) = order(&dims, &strides) else {
        return Err(PthError::Strides { tensor: name.to_owned(), dims, strides });
    };
    let format = match tensor.storage.class {
        "FloatStorage" => Format::F32,
        "HalfStorage" => Format::F16,
        "BFloat16Storage" => Format::BF16,
        other => {
            let element = Element::Other(format!("torch.{other}"));
            return Ok(RawTensor { element, dims, first_dim_fastest, bytes: 0..0 });
        }
    };
    let storage = archive.storage(tensor.storage.key)?;
    let offset = u64::try_from(tensor.offset).unwrap_or(u64::MAX);
    let bytes = byte_len(format, &dims).and_then(|len| {
        let start = usize::try_from(offset).ok()?.checked_mul(format.block_bytes())?.checked_add(storage.start)?;
        Some(start..start.checked_add(len)?)
    });
    match bytes.filter(|bytes| bytes.end <= storage.end) {
        Some(bytes) => Ok(RawTensor { element: Element::Known(format), dims, first_dim_fastest, bytes }),
        None => Err(PthError::Storage {
            tensor: name.to_owned(),
            dims,
            offset,
            storage: tensor.storage.key.to_owned(),
            len: storage.len(),
        }),
    }
}

/// The order of the elements in memory: `false` for row major, `true` for a transposed matrix, `None` for any other.
/// Strides of dimensions of size 1 say nothing.
fn order(dims: &[usize], strides: &[usize]) -> Option<bool> {
    if dims.len() != strides.len() {
        return None;
    }
    let mut expected = 1usize;
    let row_major = dims.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || stride == expected;
        expected = expected.saturating_mul(dim);
        fits
    });
    match (dims, strides) {
        _ if row_major => Some(false),
        ([rows, _], [1, stride]) if stride == rows => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn orders_of_elements() {
        assert_eq!(order(&[2, 3], &[3, 1]), Some(false));
        assert_eq!(order(&[2, 3], &[1, 2]), Some(true));
        assert_eq!(order(&[1, 1, 3], &[7, 7, 1]), Some(false));
        assert_eq!(order(&[], &[]), Some(false));
        assert_eq!(order(&[2, 3], &[6, 2]), None);
        assert_eq!(order(&[2, 3], &[0, 1]), None);
        assert_eq!(order(&[2, 3], &[1]), None);
        assert_eq!(order(&[2, 3, 4], &[1, 2, 6]), None);
    }
}

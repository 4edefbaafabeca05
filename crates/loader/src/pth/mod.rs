//! .pth as `torch.save` writes it since version 1.6: a zip archive with `data.pkl`, a pickle program that describes the
//! tensors, and `data/0`, `data/1`, ...: the storages, uncompressed.

mod archive;
mod error;
mod pickle;
mod state_dict;
mod strided;
mod value;

pub use error::{ArchiveError, PickleError, PthError};

use crate::contents::{About, Contents, Directory, Element, RawTensor, byte_len};
use archive::Archive;
use strided::{Gathered, Gatherer, View};
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

    let mut gatherer = Gatherer::new(file);
    let mut directory = Directory::new(file.len());
    for (key, value) in heap.pairs(state.dict) {
        match (key, value) {
            (Value::Text(name), Value::Tensor(index)) => {
                let tensor = place(name, heap.tensor_at(index), &heap, archive, &mut gatherer)?;
                directory.insert_raw(name, tensor)?;
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

/// Bytes, as f32, of a transposed matrix that may be a vector split by heads (`r_k`), which no view can turn.
const MAX_VECTOR: usize = 4096 * 4;

/// Where in the file a tensor lies, or its bytes where it lies scattered.
fn place(
    name: &str,
    tensor: Tensor<'_>,
    heap: &Heap<'_>,
    archive: &Archive<'_>,
    gatherer: &mut Gatherer<'_>,
) -> Result<RawTensor, PthError> {
    let (Some(dims), Some(strides)) = (heap.sizes(tensor.dims), heap.sizes(tensor.strides)) else {
        return Err(PthError::Sizes { tensor: name.to_owned() });
    };
    if dims.len() != strides.len() {
        return Err(PthError::Sizes { tensor: name.to_owned() });
    }
    let order = match order(&dims, &strides) {
        Some(Order::ColumnMajor) if byte_len(Format::F32, &dims).is_some_and(|len| len <= MAX_VECTOR) => None,
        order => order,
    };
    let first_dim_fastest = order == Some(Order::ColumnMajor);
    let format = match tensor.dtype {
        "float32" => Format::F32,
        "float16" => Format::F16,
        "bfloat16" => Format::BF16,
        other => {
            let element = Element::Other(format!("torch.{other}"));
            return Ok(RawTensor { element, dims, first_dim_fastest, bytes: 0..0, gathered: None });
        }
    };
    let element = Element::Known(format);
    let storage = archive.storage(tensor.storage.key)?;
    let offset = u64::try_from(tensor.offset).unwrap_or(u64::MAX);
    let start = usize::try_from(offset)
        .ok()
        .and_then(|offset| offset.checked_mul(format.block_bytes())?.checked_add(storage.start));
    let view = start.map(|start| View { start, element: format.block_bytes(), dims: &dims, strides: &strides });
    let bytes = match order {
        Some(_) => byte_len(format, &dims).and_then(|len| Some(start?..start?.checked_add(len)?)),
        None => view.as_ref().and_then(View::span),
    };
    let Some(bytes) = bytes.filter(|bytes| bytes.end <= storage.end) else {
        return Err(PthError::Storage {
            tensor: name.to_owned(),
            dims,
            offset,
            storage: tensor.storage.key.to_owned(),
            len: storage.len(),
        });
    };
    if order.is_some() {
        return Ok(RawTensor { element, dims, first_dim_fastest, bytes, gathered: None });
    }
    match view.and_then(|view| gatherer.gather(&view)) {
        Some(Gathered { span, bytes }) => {
            Ok(RawTensor { element, dims, first_dim_fastest, bytes: span, gathered: Some(bytes) })
        }
        None => Err(PthError::Strides { tensor: name.to_owned(), dims, strides }),
    }
}

/// The order of a tensor's elements in its storage, where there is no gap between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Row by row.
    RowMajor,
    /// Column by column: a transposed matrix.
    ColumnMajor,
}

/// The order of the elements; `None` where it is another, or has gaps. Strides of dimensions of size 1 say nothing.
fn order(dims: &[usize], strides: &[usize]) -> Option<Order> {
    let mut expected = 1usize;
    let row_major = dims.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || stride == expected;
        expected = expected.saturating_mul(dim);
        fits
    });
    match (dims, strides) {
        _ if row_major => Some(Order::RowMajor),
        ([rows, _], [1, stride]) if stride == rows => Some(Order::ColumnMajor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, order};

    #[test]
    fn orders_of_elements() {
        assert_eq!(order(&[2, 3], &[3, 1]), Some(Order::RowMajor));
        assert_eq!(order(&[2, 3], &[1, 2]), Some(Order::ColumnMajor));
        assert_eq!(order(&[1, 1, 3], &[7, 7, 1]), Some(Order::RowMajor));
        assert_eq!(order(&[], &[]), Some(Order::RowMajor));
        assert_eq!(order(&[2, 3], &[6, 2]), None);
        assert_eq!(order(&[2, 3], &[0, 1]), None);
        assert_eq!(order(&[2, 3, 4], &[1, 2, 6]), None);
    }
}

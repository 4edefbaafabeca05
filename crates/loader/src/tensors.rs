//! A file of named tensors that is no whole model: initial states, for instance.

use crate::blocks;
use crate::contents::{Directory, Element};
use crate::error::LoadError;
use crate::file::ModelFile;
use crate::model;
use std::path::Path;

/// The tensors of a safetensors, .pth or GGUF file, whatever they are for.
#[derive(Debug)]
pub struct TensorFile {
    file: ModelFile,
    directory: Directory,
}

impl TensorFile {
    /// Opens a file and reads what it says of its tensors, but none of them.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let file = ModelFile::open(path.as_ref())?;
        let contents = model::contents(file.bytes());
        file.check_unchanged()?;
        let directory = contents.map_err(|why| why.of_file(file.path()))?.1.directory;
        Ok(TensorFile { file, directory })
    }

    /// The names of all tensors, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.directory.names()
    }

    /// A tensor as f32 in row-major order, and its sizes, slowest-varying first.
    ///
    /// # Errors
    /// There is none of that name, it is stored in a type that is not known here, or the file fails.
    pub fn read(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), LoadError> {
        let wrong = |why: LoadError| why.of_file(self.file.path());
        let none = || wrong(LoadError::NoTensor { tensor: name.to_owned() });
        let tensor = self.directory.get(name).ok_or_else(none)?;
        let unsupported = |found: String| wrong(LoadError::UnsupportedType { tensor: name.to_owned(), found });
        let format = match &tensor.element {
            Element::Known(format) => *format,
            Element::Source(found) => return Err(unsupported(found.to_string())),
            Element::Other(found) => return Err(unsupported(found.clone())),
        };
        let mut floats = vec![0.0; tensor.dims.iter().product()];
        match &tensor.gathered {
            Some(bytes) => blocks::decode(format, bytes, &mut floats),
            None => {
                let mut bytes = vec![0; tensor.bytes.len()];
                self.file.read(tensor.bytes.start as u64, &mut bytes)?;
                blocks::decode(format, &bytes, &mut floats);
            }
        }
        if tensor.first_dim_fastest
            && let [rows, cols] = tensor.dims[..]
        {
            let elements = (0..rows).flat_map(|row| (0..cols).map(move |col| col * rows + row));
            floats = elements.map(|at| floats[at]).collect();
        }
        self.file.check_unchanged()?;
        Ok((tensor.dims.clone(), floats))
    }
}

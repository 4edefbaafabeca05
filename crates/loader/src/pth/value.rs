//! What a pickle program can build here: tensors, the dictionary of them, and what it takes to describe them.
//!
//! Values are small and copied freely; what does not fit in one lies in the [`Heap`], which only grows. Nothing is
//! nested in Rust's sense, so no program, however deep the values it builds, can exhaust the stack.

/// A value of the program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// None, a truth value, a tuple of functions: of no consequence for a tensor.
    Inert,
    Int(i64),
    Text(&'a str),
    /// A span of [`Heap::items`].
    Tuple(Span),
    /// The number of a dictionary in [`Heap::pairs`].
    Dict(usize),
    Function(Function),
    /// Index into [`Heap::storages`].
    Storage(usize),
    /// Index into [`Heap::tensors`].
    Tensor(usize),
}

/// Torch's storage classes.
const STORAGES: [&str; 12] = [
    "FloatStorage",
    "HalfStorage",
    "BFloat16Storage",
    "DoubleStorage",
    "LongStorage",
    "IntStorage",
    "ShortStorage",
    "CharStorage",
    "ByteStorage",
    "BoolStorage",
    "ComplexFloatStorage",
    "ComplexDoubleStorage",
];

/// The functions and classes a state dict refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    /// `collections.OrderedDict`
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`
    RebuildParameter,
    /// `torch.FloatStorage` and its like, by its name.
    Storage(&'static str),
}

impl Function {
    /// The function of that module and name, if it is one of the few that are known.
    pub(super) fn find(module: &str, name: &str) -> Option<Self> {
        match (module, name) {
            ("collections", "OrderedDict") => Some(Function::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Function::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Function::RebuildParameter),
            ("torch", _) => STORAGES.into_iter().find(|&class| class == name).map(Function::Storage),
            _ => None,
        }
    }
}

/// Consecutive items of the heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: usize,
    len: usize,
}

/// Numbers of one type, in an entry of the archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage<'a> {
    /// The type, as torch names its class: `BFloat16Storage`.
    pub(super) class: &'static str,
    /// The entry's name under `data/`.
    pub(super) key: &'a str,
}

/// A view of a storage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor<'a> {
    pub(super) storage: Storage<'a>,
    /// First element.
    pub(super) offset: i64,
    pub(super) dims: Span,
    /// Distance of neighbours in each dimension, in elements.
    pub(super) strides: Span,
}

/// The largest number of items, pairs, storages or tensors; the largest model has some ten thousands.
pub(super) const MAX_ITEMS: usize = 1 << 18;

/// The most dimensions a tensor may have.
const MAX_DIMS: usize = 8;

/// Where the parts of compound values lie.
#[derive(Debug, Default)]
pub(super) struct Heap<'a> {
    items: Vec<Value<'a>>,
    dicts: usize,
    /// Dictionary, key, value. One list for all dictionaries: an empty one takes no memory.
    pairs: Vec<(usize, Value<'a>, Value<'a>)>,
    storages: Vec<Storage<'a>>,
    tensors: Vec<Tensor<'a>>,
}

impl<'a> Heap<'a> {
    /// Whether there is more than any model needs.
    pub(super) fn is_full(&self) -> bool {
        let lens = [self.items.len(), self.dicts, self.storages.len(), self.tensors.len(), self.pairs.len()];
        lens.into_iter().any(|len| len > MAX_ITEMS)
    }

    pub(super) fn tuple(&mut self, items: impl IntoIterator<Item = Value<'a>>) -> Value<'a> {
        let start = self.items.len();
        self.items.extend(items);
        Value::Tuple(Span { start, len: self.items.len() - start })
    }

    pub(super) fn dict(&mut self) -> Value<'a> {
        self.dicts += 1;
        Value::Dict(self.dicts - 1)
    }

    pub(super) fn storage(&mut self, storage: Storage<'a>) -> Value<'a> {
        self.storages.push(storage);
        Value::Storage(self.storages.len() - 1)
    }

    pub(super) fn tensor(&mut self, tensor: Tensor<'a>) -> Value<'a> {
        self.tensors.push(tensor);
        Value::Tensor(self.tensors.len() - 1)
    }

    /// Adds a pair to a dictionary.
    pub(super) fn put(&mut self, dict: usize, key: Value<'a>, value: Value<'a>) {
        self.pairs.push((dict, key, value));
    }

    pub(super) fn items(&self, Span { start, len }: Span) -> &[Value<'a>] {
        &self.items[start..start + len]
    }

    /// The pairs of a dictionary, in order.
    pub(super) fn pairs(&self, dict: usize) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        self.pairs.iter().filter(move |(owner, ..)| *owner == dict).map(|(_, key, value)| (*key, *value))
    }

    /// Of each dictionary, whether it holds tensors, itself or in a dictionary that was filled before it.
    pub(super) fn dicts_with_tensors(&self) -> Vec<bool> {
        let mut with_tensors = vec![false; self.dicts];
        for (owner, _, value) in &self.pairs {
            with_tensors[*owner] |= match value {
                Value::Dict(dict) => with_tensors[*dict],
                Value::Tensor(_) => true,
                _ => false,
            };
        }
        with_tensors
    }

    pub(super) fn storage_at(&self, index: usize) -> Storage<'a> {
        self.storages[index]
    }

    pub(super) fn tensor_at(&self, index: usize) -> Tensor<'a> {
        self.tensors[index]
    }

    /// The numbers of a short tuple of numbers, none negative.
    pub(super) fn sizes(&self, span: Span) -> Option<Vec<usize>> {
        if span.len > MAX_DIMS {
            return None; // tuples are shared: copies of a long one would outgrow the file
        }
        let size = |item: &Value<'a>| match item {
            Value::Int(n) => usize::try_from(*n).ok(),
            _ => None,
        };
        self.items(span).iter().map(size).collect()
    }
}

//! Values that a pickle program can build here: tensors, the dictionary of them, and the parts that describe them.
//!
//! Values are small and copied freely; larger ones are stored in the [`Heap`], which only grows. Nothing is nested in
//! Rust's sense, so no program, however deep the values it builds, can exhaust the stack.

/// A value of the program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// None, a truth value, a float, bytes, a list, a set: of no consequence for a tensor.
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

/// The name of a type of numbers, as torch has it: `bfloat16`.
pub(super) type Dtype = &'static str;

/// Torch's classes of storages, with the types of their numbers; what has none is bytes.
const STORAGES: [(&str, Option<Dtype>); 13] = [
    ("FloatStorage", Some("float32")),
    ("HalfStorage", Some("float16")),
    ("BFloat16Storage", Some("bfloat16")),
    ("DoubleStorage", Some("float64")),
    ("LongStorage", Some("int64")),
    ("IntStorage", Some("int32")),
    ("ShortStorage", Some("int16")),
    ("CharStorage", Some("int8")),
    ("ByteStorage", Some("uint8")),
    ("BoolStorage", Some("bool")),
    ("ComplexFloatStorage", Some("complex64")),
    ("ComplexDoubleStorage", Some("complex128")),
    ("UntypedStorage", None),
];

/// Torch's types of numbers.
const DTYPES: [Dtype; 21] = [
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
];

/// The functions and classes a state dict refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    /// `collections.OrderedDict`
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`
    RebuildTensor,
    /// `torch._utils._rebuild_tensor_v3`: of a storage that is bytes
    RebuildTypedTensor,
    /// `torch._utils._rebuild_parameter` and `_rebuild_parameter_with_state`
    RebuildParameter,
    /// `torch._tensor._rebuild_from_type_v2`: any of these, and attributes
    RebuildWithAttributes,
    /// `torch.Tensor` and `torch.nn.parameter.Parameter`
    Class,
    /// `torch.FloatStorage` and its like, by the type of its numbers.
    Storage(Option<Dtype>),
    /// `torch.float32` and its like.
    Type(Dtype),
}

impl Function {
    /// The function of that module and name, if it is one of the few that are known.
    pub(super) fn find(module: &str, name: &str) -> Option<Self> {
        match (module, name) {
            ("collections", "OrderedDict") => Some(Function::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Function::RebuildTensor),
            ("torch._utils", "_rebuild_tensor_v3") => Some(Function::RebuildTypedTensor),
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                Some(Function::RebuildParameter)
            }
            ("torch._tensor", "_rebuild_from_type_v2") => Some(Function::RebuildWithAttributes),
            ("torch" | "torch._tensor", "Tensor") | ("torch.nn.parameter", "Parameter") => Some(Function::Class),
            ("torch" | "torch.storage", _) => {
                let storage = STORAGES.into_iter().find(|(class, _)| *class == name);
                let dtype = DTYPES.into_iter().find(|dtype| *dtype == name).map(Function::Type);
                storage.map(|(_, dtype)| Function::Storage(dtype)).or(dtype)
            }
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

/// Numbers, in an entry of the archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage<'a> {
    /// Their type, where the storage has one.
    pub(super) dtype: Option<Dtype>,
    /// The entry's name under `data/`.
    pub(super) key: &'a str,
}

/// A view of a storage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor<'a> {
    pub(super) storage: Storage<'a>,
    /// The type of its numbers.
    pub(super) dtype: Dtype,
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

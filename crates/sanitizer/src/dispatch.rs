//! A dispatch: workgroups, buffers, and the order in which invocations take turns.

use std::collections::BTreeMap;

/// Bytes that variables are bound to, and which of them somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    pub(crate) bytes: Vec<u8>,
    /// Of each byte, whether it was written; `None` if all were.
    pub(crate) written: Option<Vec<bool>>,
}

impl Buffer {
    /// A buffer with contents.
    pub fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Buffer { bytes: bytes.into(), written: None }
    }

    /// A buffer of bytes that nobody has written: a read of them is a finding.
    pub fn unwritten(len: usize) -> Self {
        Buffer { bytes: vec![0xff; len], written: Some(vec![false; len]) }
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether somebody wrote each byte of a range.
    pub fn is_written(&self, range: std::ops::Range<usize>) -> bool {
        let written = self.written.as_ref();
        written.is_none_or(|written| written.get(range).is_some_and(|bytes| bytes.iter().all(|byte| *byte)))
    }
}

/// A range of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRange {
    /// Index into [`Dispatch::buffers`].
    pub buffer: usize,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// In which order invocations, subgroups and workgroups take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The first first.
    Forward,
    /// The last first: the adversary of kernels that rely on the usual order.
    Backward,
    /// A new permutation at every turn, and workgroups interleaved at every barrier.
    Random {
        /// The same seed gives the same order.
        seed: u64,
    },
}

/// One dispatch of a shader.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Workgroups in x, y and z.
    pub workgroups: [u32; 3],
    /// The memory that variables are bound to.
    pub buffers: Vec<Buffer>,
    /// What each variable is bound to, by group and binding.
    pub bindings: BTreeMap<(u32, u32), BufferRange>,
    /// Invocations of a subgroup: 4 to 128, a power of two.
    pub subgroup_size: u32,
    /// The order of turns.
    pub order: Order,
    /// Workgroups that are on the device at once: no other begins before one of them ends.
    pub resident: u32,
    /// Steps of all invocations together after which it is an error that the shader still runs.
    pub max_steps: u64,
}

impl Dispatch {
    /// A dispatch without buffers, of subgroups of 32, first first, with all workgroups resident.
    pub fn new(workgroups: [u32; 3]) -> Self {
        Dispatch {
            workgroups,
            buffers: Vec::new(),
            bindings: BTreeMap::new(),
            subgroup_size: 32,
            order: Order::Forward,
            resident: u32::MAX,
            max_steps: 20_000_000_000,
        }
    }

    /// Adds a buffer and binds the variable of that binding of group 0 to all of it.
    #[must_use]
    pub fn bind(mut self, binding: u32, buffer: Buffer) -> Self {
        let range = BufferRange { buffer: self.buffers.len(), offset: 0, len: buffer.bytes.len() };
        self.buffers.push(buffer);
        self.bindings.insert((0, binding), range);
        self
    }

    /// Binds the variable of that binding of group 0 to a range that others may share.
    #[must_use]
    pub fn bind_range(mut self, binding: u32, range: BufferRange) -> Self {
        self.bindings.insert((0, binding), range);
        self
    }

    /// The same with subgroups of another size.
    #[must_use]
    pub fn with_subgroups_of(self, subgroup_size: u32) -> Self {
        Dispatch { subgroup_size, ..self }
    }

    /// The same in another order.
    #[must_use]
    pub fn in_order(self, order: Order) -> Self {
        Dispatch { order, ..self }
    }

    /// The same with this number of workgroups on the device at once.
    #[must_use]
    pub fn with_resident(self, resident: u32) -> Self {
        Dispatch { resident, ..self }
    }
}

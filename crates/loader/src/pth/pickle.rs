//! A reader of pickle programs (protocols 2 to 5) that knows only what torch.save writes for a state dict.
//!
//! A pickle is a program for a small stack machine that may call any function of Python. This machine calls none: it
//! records which tensors the program describes, and stops at the first instruction or function it does not know.
//! Instructions: Python's `Lib/pickletools.py`; what torch emits: `torch/serialization.py`, `torch/_utils.py`.

use super::PickleError;
use super::value::{Dtype, Function, Heap, MAX_ITEMS, Storage, Tensor, Value};

/// Values on the stack at once; torch sets items in batches of 1000.
const MAX_STACK: usize = 1 << 14;

/// The value a program leaves, and the heap its parts lie in.
pub(super) fn run(program: &[u8]) -> Result<(Value<'_>, Heap<'_>), PickleError> {
    let mut machine = Machine {
        program,
        at: 0,
        instruction: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        heap: Heap::default(),
    };
    loop {
        if let Some(result) = machine.step()? {
            return Ok((result, machine.heap));
        }
    }
}

struct Machine<'a> {
    program: &'a [u8],
    at: usize,
    /// Where the current instruction stands.
    instruction: usize,
    stack: Vec<Value<'a>>,
    /// Heights of the stack at the open marks.
    marks: Vec<usize>,
    memo: Vec<Value<'a>>,
    heap: Heap<'a>,
}

impl<'a> Machine<'a> {
    /// Runs one instruction; the result once the program stops.
    fn step(&mut self) -> Result<Option<Value<'a>>, PickleError> {
        self.instruction = self.at;
        let [opcode] = self.array()?;
        match opcode {
            b'.' => return self.pop().map(Some),
            0x80 => drop(self.array::<1>()?), // PROTO: what follows shows whether it is understood
            0x95 => drop(self.array::<8>()?), // FRAME: how much to read ahead, which a slice needs not
            b'(' => self.marks.push(self.stack.len()),

            b'N' | 0x88 | 0x89 => self.stack.push(Value::Inert), // NONE, NEWTRUE, NEWFALSE
            b'G' => {
                self.array::<8>()?; // BINFLOAT
                self.stack.push(Value::Inert);
            }
            b'J' => self.int(4)?,
            b'K' => self.int(1)?,
            b'M' => self.int(2)?,
            0x8a => {
                let [bytes] = self.array()?;
                self.int(bytes as usize)?;
            }
            0x8c | b'X' | 0x8d => {
                let text = self.len(opcode).and_then(|len| self.text(len))?;
                self.stack.push(Value::Text(text));
            }
            b'C' | b'B' | 0x8e => {
                self.len(opcode).and_then(|len| self.bytes(len))?;
                self.stack.push(Value::Inert);
            }
            b'c' => {
                let module = self.line()?;
                let name = self.line()?;
                self.function(module, name)?;
            }
            0x93 => {
                let name = self.pop()?;
                let module = self.pop()?;
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err(self.operand("module and name of a function"));
                };
                self.function(module, name)?;
            }

            b')' => self.tuple(0)?,
            0x85..=0x87 => self.tuple(usize::from(opcode - 0x84))?,
            b't' => {
                let mark = self.mark()?;
                self.tuple(self.stack.len() - mark)?;
            }
            b']' | 0x8f => self.stack.push(Value::Inert), // EMPTY_LIST, EMPTY_SET
            b'a' => self.drop_items(1)?,
            b'e' | 0x90 => {
                let mark = self.mark()?;
                self.drop_items(self.stack.len() - mark)?;
            }
            b'}' => {
                let dict = self.heap.dict();
                self.stack.push(dict);
            }
            b's' => self.set_items(2)?,
            b'u' => {
                let mark = self.mark()?;
                self.set_items(self.stack.len() - mark)?;
            }

            b'q' => {
                let [index] = self.array()?;
                self.memoise(index.into())?;
            }
            b'r' => {
                let index = self.array().map(u32::from_le_bytes)?;
                self.memoise(index as usize)?;
            }
            0x94 => self.memoise(self.memo.len())?,
            b'h' => {
                let [index] = self.array()?;
                self.recall(index.into())?;
            }
            b'j' => {
                let index = self.array().map(u32::from_le_bytes)?;
                self.recall(index)?;
            }

            b'Q' => self.storage()?,
            b'R' => self.reduce()?,
            b'b' => drop(self.pop()?), // BUILD: attributes, such as the dictionary's `_metadata`
            _ => return Err(PickleError::Opcode { opcode, offset: self.instruction }),
        }
        self.refuse_excess()?;
        Ok(None)
    }

    fn refuse_excess(&self) -> Result<(), PickleError> {
        let (what, limit) = if self.stack.len().max(self.marks.len()) > MAX_STACK {
            ("values on the stack", MAX_STACK)
        } else if self.memo.len() > MAX_ITEMS || self.heap.is_full() {
            ("values", MAX_ITEMS)
        } else {
            return Ok(());
        };
        Err(PickleError::TooMany { what, limit, offset: self.instruction })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let array = self.program[self.at..].first_chunk();
        let array = *array.ok_or(PickleError::Truncated { offset: self.program.len() })?;
        self.at += N;
        Ok(array)
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], PickleError> {
        let bytes = self.program[self.at..].get(..len);
        let bytes = bytes.ok_or(PickleError::Truncated { offset: self.program.len() })?;
        self.at += len;
        Ok(bytes)
    }

    /// The length of a text or of bytes, as the instruction has it: in 8, 32 or 64 bits.
    fn len(&mut self, opcode: u8) -> Result<usize, PickleError> {
        let len = match opcode {
            0x8c | b'C' => self.array().map(|[len]: [u8; 1]| len.into())?,
            0x8d | 0x8e => self.array().map(u64::from_le_bytes)?,
            _ => self.array().map(u32::from_le_bytes)?.into(),
        };
        usize::try_from(len).map_err(|_| PickleError::Truncated { offset: self.program.len() })
    }

    fn text(&mut self, len: usize) -> Result<&'a str, PickleError> {
        let bytes = self.bytes(len)?;
        std::str::from_utf8(bytes).map_err(|_| self.operand("UTF-8 text"))
    }

    /// Text up to the end of the line.
    fn line(&mut self) -> Result<&'a str, PickleError> {
        let len = self.program[self.at..].iter().position(|&b| b == b'\n');
        let line = self.text(len.ok_or(PickleError::Truncated { offset: self.program.len() })?)?;
        self.at += 1;
        Ok(line)
    }

    fn operand(&self, expected: &'static str) -> PickleError {
        PickleError::Operand { opcode: self.program[self.instruction], offset: self.instruction, expected }
    }

    /// Height of the stack at the last mark: what lies below is out of reach for instructions that pop single values.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Value<'a>, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.operand("value on the stack"));
        }
        self.stack.pop().ok_or_else(|| self.operand("value on the stack"))
    }

    fn mark(&mut self) -> Result<usize, PickleError> {
        self.marks.pop().ok_or_else(|| self.operand("mark on the stack"))
    }

    /// A little-endian number of `len` bytes: one and two bytes are unsigned, more are signed.
    fn int(&mut self, len: usize) -> Result<(), PickleError> {
        if len > 8 {
            return Err(self.operand("number of 64 bits"));
        }
        let bytes = self.bytes(len)?;
        let negative = self.program[self.instruction] != b'K'
            && self.program[self.instruction] != b'M'
            && bytes.last().is_some_and(|&top| top >= 0x80);
        let mut wide = if negative { [0xff; 8] } else { [0; 8] };
        wide[..len].copy_from_slice(bytes);
        self.stack.push(Value::Int(i64::from_le_bytes(wide)));
        Ok(())
    }

    fn function(&mut self, module: &str, name: &str) -> Result<(), PickleError> {
        let function = Function::find(module, name)
            .ok_or_else(|| PickleError::Global { name: format!("{module}.{name}"), offset: self.instruction })?;
        self.stack.push(Value::Function(function));
        Ok(())
    }

    fn tuple(&mut self, len: usize) -> Result<(), PickleError> {
        let start = self.stack.len().checked_sub(len).filter(|&start| start >= self.floor());
        let start = start.ok_or_else(|| self.operand("values for a tuple"))?;
        let tuple = self.heap.tuple(self.stack.drain(start..));
        self.stack.push(tuple);
        Ok(())
    }

    /// Drops the topmost `len` values, items of the list or set below them, of which no tensor is made.
    fn drop_items(&mut self, len: usize) -> Result<(), PickleError> {
        let start = self.stack.len().checked_sub(len).filter(|&start| start > self.floor());
        let start = start.ok_or_else(|| self.operand("items above a list"))?;
        let Value::Inert = self.stack[start - 1] else { return Err(self.operand("list")) };
        self.stack.truncate(start);
        Ok(())
    }

    /// Moves the topmost `len` values, keys and values in turn, into the dictionary below them.
    fn set_items(&mut self, len: usize) -> Result<(), PickleError> {
        let start = self.stack.len().checked_sub(len).filter(|&start| start > self.floor() && len.is_multiple_of(2));
        let start = start.ok_or_else(|| self.operand("keys and values above a dictionary"))?;
        let Value::Dict(dict) = self.stack[start - 1] else { return Err(self.operand("dictionary")) };
        for pair in self.stack[start..].chunks_exact(2) {
            self.heap.put(dict, pair[0], pair[1]);
        }
        self.stack.truncate(start);
        Ok(())
    }

    /// Python numbers the memo's entries in the order they are made.
    fn memoise(&mut self, index: usize) -> Result<(), PickleError> {
        let value = self.pop()?;
        self.stack.push(value);
        if index < self.memo.len() {
            self.memo[index] = value;
        } else if index == self.memo.len() {
            self.memo.push(value);
        } else {
            return Err(self.operand("memo entries up to the one it makes"));
        }
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<(), PickleError> {
        let value = self.memo.get(index as usize).copied();
        self.stack.push(value.ok_or_else(|| self.operand("such memo entry"))?);
        Ok(())
    }

    /// The first `N` items of a tuple.
    fn unpack<const N: usize>(&self, value: Value<'a>, expected: &'static str) -> Result<[Value<'a>; N], PickleError> {
        let items = if let Value::Tuple(span) = value { self.heap.items(span) } else { &[] };
        items.first_chunk().copied().ok_or_else(|| self.operand(expected))
    }

    /// A persistent id: `("storage", class, key, device, number of elements)`.
    fn storage(&mut self) -> Result<(), PickleError> {
        let expected = "description of a storage";
        let id = self.pop()?;
        let [Value::Text("storage"), Value::Function(Function::Storage(dtype)), Value::Text(key), _, Value::Int(_)] =
            self.unpack(id, expected)?
        else {
            return Err(self.operand(expected));
        };
        let storage = self.heap.storage(Storage { dtype, key });
        self.stack.push(storage);
        Ok(())
    }

    /// Stands in for a call of the function below the tuple of its arguments.
    fn reduce(&mut self) -> Result<(), PickleError> {
        let arguments = self.pop()?;
        let Value::Function(function) = self.pop()? else { return Err(self.operand("function")) };
        let (function, arguments) = match function {
            // (function, class, its arguments, attributes)
            Function::RebuildWithAttributes => {
                let expected = "function and arguments of a tensor with attributes";
                let [Value::Function(function), Value::Function(Function::Class), arguments] =
                    self.unpack(arguments, expected)?
                else {
                    return Err(self.operand(expected));
                };
                (function, arguments)
            }
            function => (function, arguments),
        };
        let result = match function {
            Function::OrderedDict => self.heap.dict(),
            // (tensor, requires_grad, hooks), and attributes where there are some
            Function::RebuildParameter => match self.unpack(arguments, "tensor of a parameter")? {
                [tensor @ Value::Tensor(_)] => tensor,
                _ => return Err(self.operand("tensor of a parameter")),
            },
            Function::RebuildTensor => self.tensor(arguments, None)?,
            Function::RebuildTypedTensor => {
                let expected = "type of a tensor";
                let [_, _, _, _, _, _, Value::Function(Function::Type(dtype))] = self.unpack(arguments, expected)?
                else {
                    return Err(self.operand(expected));
                };
                self.tensor(arguments, Some(dtype))?
            }
            Function::Storage(_) | Function::Type(_) | Function::Class | Function::RebuildWithAttributes => {
                return Err(self.operand("function that describes a tensor"));
            }
        };
        self.stack.push(result);
        Ok(())
    }

    /// A tensor of `(storage, first element, sizes, strides, requires_grad, hooks)`, and of its type behind these where
    /// the storage has none. A last argument says that the numbers are to be negated or conjugated.
    fn tensor(&mut self, arguments: Value<'a>, dtype: Option<Dtype>) -> Result<Value<'a>, PickleError> {
        let expected = "storage, offset, sizes and strides of a tensor";
        let [Value::Storage(storage), Value::Int(offset), Value::Tuple(dims), Value::Tuple(strides)] =
            self.unpack(arguments, expected)?
        else {
            return Err(self.operand(expected));
        };
        let given = if let Value::Tuple(span) = arguments { self.heap.items(span).len() } else { 0 };
        if given > 6 + usize::from(dtype.is_some()) {
            return Err(self.operand("tensor whose numbers are those of its storage"));
        }
        let storage = self.heap.storage_at(storage);
        let dtype = match (dtype, storage.dtype) {
            (Some(dtype), _) | (None, Some(dtype)) => dtype,
            (None, None) => return Err(self.operand("type of a tensor")),
        };
        Ok(self.heap.tensor(Tensor { storage, dtype, offset, dims, strides }))
    }
}

//! Writes .pth: a pickle program and a zip archive, as torch.save does.

use super::Tensor;
use wgoose_graph::Format;

/// How the state dict is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Style {
    /// Every tensor has its own storage.
    Plain,
    /// All tensors are wrapped as parameters.
    Parameters,
    /// All tensors lie in one storage, one behind the other.
    OneStorage,
    /// Frames, short texts and an implicit memo.
    Protocol5,
    /// All tensors are parameters that have an attribute.
    ParametersWithAttributes,
    /// All tensors have an attribute.
    TensorsWithAttributes,
    /// Storages are bytes, and the tensors have the type.
    UntypedStorages,
}

pub(crate) fn write(tensors: &[Tensor], style: Style) -> Vec<u8> {
    let views: Vec<_> = tensors.iter().map(|t| (t.clone(), row_major(&t.dims))).collect();
    write_views(&views, style)
}

pub(crate) fn row_major(dims: &[usize]) -> Vec<usize> {
    (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect()
}

/// Tensors with the strides to be written.
pub(crate) fn write_views(views: &[(Tensor, Vec<usize>)], style: Style) -> Vec<u8> {
    let mut p = Program::begin_in(style);
    let mut entries = vec![("data.pkl".to_owned(), Vec::new()), ("byteorder".to_owned(), b"little".to_vec())];
    let mut whole = Vec::new();
    for (i, (t, strides)) in views.iter().enumerate() {
        let size = t.format.block_bytes();
        let (key, offset) =
            if style == Style::OneStorage { ("0".into(), whole.len() / size) } else { (i.to_string(), 0) };
        p.tensor(t, &key, offset, strides);
        if style == Style::OneStorage {
            whole.extend(&t.bytes);
        } else {
            entries.push((format!("data/{i}"), t.bytes.clone()));
        }
    }
    if style == Style::OneStorage {
        entries.push(("data/0".into(), whole));
    }
    entries[0].1 = p.end();
    zip(&entries, Zip::default())
}

/// A pickle program under construction.
pub(crate) struct Program(pub(crate) Vec<u8>, Style);

impl Program {
    /// One that begins with other bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Program(bytes.to_vec(), Style::Plain)
    }

    pub(crate) fn begin() -> Self {
        Program::begin_in(Style::Plain)
    }

    fn begin_in(style: Style) -> Self {
        let mut program = Program(Vec::new(), style);
        if style == Style::Protocol5 {
            program.0.extend(b"\x80\x05\x95\0\0\0\0\0\0\0\0");
            program.function("collections", "OrderedDict");
            program.0.extend(b")R\x94(");
        } else {
            program.0.extend(b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(");
        }
        program
    }

    pub(crate) fn text(&mut self, text: &str) {
        if self.1 == Style::Protocol5 {
            self.0.extend([0x8c, text.len() as u8]);
            self.0.extend(text.as_bytes());
            self.0.push(0x94);
        } else {
            self.0.push(b'X');
            self.0.extend((text.len() as u32).to_le_bytes());
            self.0.extend(text.as_bytes());
        }
    }

    fn function(&mut self, module: &str, name: &str) {
        if self.1 == Style::Protocol5 {
            self.text(module);
            self.text(name);
            self.0.extend([0x93, 0x94]);
        } else {
            self.0.extend(format!("c{module}\n{name}\n").as_bytes());
        }
    }

    /// An empty ordered dictionary: its class is in the memo.
    fn ordered_dict(&mut self) {
        self.0.extend(if self.1 == Style::Protocol5 { b"h\x02)R" } else { b"h\x00)R" });
    }

    /// A dictionary of one attribute.
    fn attributes(&mut self) {
        self.0.push(b'}');
        self.text("shape_of_origin");
        self.0.extend(b"](K\x01G\0\0\0\0\0\0\0\0C\x01xes"); // a list of a number, a float and bytes
    }

    fn int(&mut self, n: usize) {
        match n {
            0..=0xff => self.0.extend([b'K', n as u8]),
            0x100..=0xffff => self.0.extend([b'M', n as u8, (n >> 8) as u8]),
            _ if n < 1 << 31 => self.0.extend([&[b'J'][..], &(n as u32).to_le_bytes()].concat()),
            _ => self.0.extend([&[0x8a, 8][..], &n.to_le_bytes()].concat()),
        }
    }

    fn ints(&mut self, numbers: &[usize]) {
        match numbers.len() {
            1..=3 => {
                numbers.iter().for_each(|&n| self.int(n));
                self.0.push(0x84 + numbers.len() as u8);
            }
            _ => {
                self.0.push(b'(');
                numbers.iter().for_each(|&n| self.int(n));
                self.0.push(b't');
            }
        }
    }

    pub(crate) fn tensor(&mut self, t: &Tensor, key: &str, offset: usize, strides: &[usize]) {
        let style = self.1;
        let (class, dtype) = match t.format {
            Format::F32 => ("FloatStorage", "float32"),
            Format::F16 => ("HalfStorage", "float16"),
            Format::BF16 => ("BFloat16Storage", "bfloat16"),
            _ => ("DoubleStorage", "float8_e4m3fn"), // types that no model may use
        };
        self.text(&t.name);
        match style {
            Style::Parameters => self.0.extend(b"ctorch._utils\n_rebuild_parameter\n("),
            Style::ParametersWithAttributes => self.0.extend(b"ctorch._utils\n_rebuild_parameter_with_state\n("),
            Style::TensorsWithAttributes => self.0.extend(b"ctorch._tensor\n_rebuild_from_type_v2\n("),
            _ => {}
        }
        let untyped = style == Style::UntypedStorages;
        self.function("torch._utils", if untyped { "_rebuild_tensor_v3" } else { "_rebuild_tensor_v2" });
        if style == Style::TensorsWithAttributes {
            self.function("torch", "Tensor");
        }
        self.0.extend(b"((");
        self.text("storage");
        match untyped {
            true => self.function("torch.storage", "UntypedStorage"),
            false => self.function("torch", class),
        }
        self.text(key);
        self.text("cpu");
        self.int(t.bytes.len() / t.format.block_bytes());
        self.0.extend(b"tQ");
        self.int(offset);
        self.ints(&t.dims);
        self.ints(strides);
        self.0.push(0x89); // requires_grad
        self.ordered_dict(); // hooks
        if untyped {
            self.function("torch", dtype);
        }
        self.0.push(b't');
        match style {
            Style::Parameters => {
                self.0.extend(b"R\x88");
                self.ordered_dict();
                self.0.push(b't');
            }
            Style::ParametersWithAttributes => {
                self.0.extend(b"R\x88");
                self.ordered_dict();
                self.attributes();
                self.0.push(b't');
            }
            Style::TensorsWithAttributes => {
                self.attributes();
                self.0.push(b't');
            }
            _ => {}
        }
        self.0.push(b'R');
    }

    /// Ends the dictionary, which gets an attribute `_metadata`.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend(b"u}");
        self.text("_metadata");
        self.ordered_dict();
        self.0.extend(b"sb.");
        self.0
    }
}

/// Unusual properties of an archive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Zip {
    /// Sizes and places in 64 bits.
    pub(crate) zip64: bool,
    /// The entry of that name claims to be deflated.
    pub(crate) deflated: Option<&'static str>,
}

/// Stored entries under `archive/`, their data aligned to 64 bytes.
pub(crate) fn zip(entries: &[(String, Vec<u8>)], style: Zip) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (name, data) in entries {
        let method = if style.deflated == Some(name) { 8u16 } else { 0 };
        let name = format!("archive/{name}");
        let offset = file.len();
        let padding = (64 - (offset + 30 + name.len() + 4) % 64) % 64;
        let extra = [&b"FB"[..], &(padding as u16).to_le_bytes(), &vec![b'Z'; padding]].concat();
        let fixed = |extra_len: usize| {
            let size = if style.zip64 { u32::MAX } else { data.len() as u32 };
            let mut fields = [0u16, 0, method, 0, 0, 0, 0].map(u16::to_le_bytes).concat(); // version .. CRC
            fields.extend([size, size].map(u32::to_le_bytes).concat());
            fields.extend([name.len() as u16, extra_len as u16].map(u16::to_le_bytes).concat());
            fields
        };
        file.extend(b"PK\x03\x04");
        file.extend(fixed(extra.len()));
        file.extend(name.as_bytes());
        file.extend(&extra);
        file.extend(data);

        let sizes = [data.len() as u64, data.len() as u64, offset as u64].map(u64::to_le_bytes).concat();
        let extra = if style.zip64 { [&[1, 0, 24, 0][..], &sizes].concat() } else { Vec::new() };
        directory.extend(b"PK\x01\x02\0\0");
        directory.extend(fixed(extra.len()));
        directory.extend([0; 10]); // comment, disk, attributes
        directory.extend(if style.zip64 { u32::MAX } else { offset as u32 }.to_le_bytes());
        directory.extend(name.as_bytes());
        directory.extend(extra);
    }
    let (start, size, count) = (file.len(), directory.len(), entries.len());
    file.extend(directory);
    if style.zip64 {
        let record = file.len() as u64;
        file.extend(b"PK\x06\x06");
        file.extend(44u64.to_le_bytes());
        file.extend([0; 12]);
        file.extend([count, count, size, start].map(|n| (n as u64).to_le_bytes()).concat());
        file.extend(b"PK\x06\x07\0\0\0\0");
        file.extend(record.to_le_bytes());
        file.extend(1u32.to_le_bytes());
    }
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count as u16; 2].map(u16::to_le_bytes).concat());
    file.extend([size as u32, if style.zip64 { u32::MAX } else { start as u32 }].map(u32::to_le_bytes).concat());
    file.extend([0, 0]);
    file
}

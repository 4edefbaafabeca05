//! Why a shader cannot be run here.

use naga::Span;

/// Why a shader or a dispatch is refused. A finding is none of these: it is in the report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SanitizerError {
    /// The text is no valid WGSL.
    #[error("line {line}: {why}")]
    Invalid {
        /// Line, from 1; 0 where the error has no place.
        line: u32,
        /// What naga says.
        why: String,
    },
    /// The text has no compute entry point.
    #[error("the shader has no compute entry point")]
    NoEntryPoint,
    /// Something valid that the interpreter does not know.
    #[error("line {line}, column {column}: the sanitizer does not know {what}")]
    Unknown {
        /// The construct, in naga's words.
        what: String,
        /// Line, from 1; 0 where the construct has no place.
        line: u32,
        /// Column, from 1.
        column: u32,
    },
    /// A variable without a buffer.
    #[error("nothing is bound to {variable}: group {group}, binding {binding}")]
    Unbound {
        /// The variable.
        variable: String,
        /// Its group.
        group: u32,
        /// Its binding.
        binding: u32,
    },
    /// A buffer that is too short for the variable, or a range that is not in its buffer.
    #[error("{variable} needs {need} bytes, and {bytes} are bound")]
    TooShort {
        /// The variable.
        variable: String,
        /// Bytes that its type has.
        need: u64,
        /// Bytes that are bound.
        bytes: u64,
    },
    /// A subgroup has 4, 8, 16, 32, 64 or 128 invocations.
    #[error("subgroups of {0}: the sizes are 4, 8, 16, 32, 64 and 128")]
    SubgroupSize(u32),
    /// More workgroups, or more invocations in one, than the shadow memory can tell apart.
    #[error("{0} are more than the sanitizer can tell apart")]
    TooMany(String),
    /// The shader has run for as long as it may.
    #[error("not finished after {steps} steps; it was last at line {line}")]
    TooLong {
        /// Steps of invocations, all together.
        steps: u64,
        /// Where the last of them was.
        line: u32,
    },
}

/// A construct that the compiler does not know, and where it is as far as that is known.
#[derive(Debug)]
pub(crate) struct Unknown {
    what: String,
    span: Option<Span>,
}

impl Unknown {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Unknown { what: what.into(), span: None }
    }

    /// At that place, unless a more exact one is known.
    pub(crate) fn at(mut self, span: Span) -> Self {
        self.span = self.span.or(span.is_defined().then_some(span));
        self
    }

    pub(crate) fn located(self, source: &str) -> SanitizerError {
        let location = self.span.map(|span| span.location(source));
        let (line, column) = location.map_or((0, 0), |l| (l.line_number, l.line_position));
        SanitizerError::Unknown { what: self.what, line, column }
    }
}

//! Bounds of texts: compilers recurse, and lay arrays out, however large their input is. The kernels of the binary are
//! far below.

use super::lex::{Token, tokens};
use super::{Text, TextError};
use naga::{AddressSpace, Handle, Module, Span, Type, TypeInner};

/// Most tokens between `;`, `{` and `}`: every operator may nest an expression in another.
const MOST_TOKENS: usize = 1000;

/// Most `else` of one chain: each is nested in the one before.
const MOST_ELSE: usize = 256;

/// Most declarations: each may refer to the one before.
const MOST_DECLARATIONS: usize = 3000;

/// Most bytes of a type: what no workgroup holds.
const MOST_BYTES: u32 = 256 << 10;

/// Most bytes of a thread's own variables.
const MOST_BYTES_OF_A_THREAD: u32 = 64 << 10;

/// Refuses what recursive compilers cannot read.
///
/// # Errors
/// A statement, a chain or a text that is too long, and where.
pub(super) fn of_text(text: &Text) -> Result<(), TextError> {
    let (mut in_statement, mut declarations, mut is_behind_block) = (0, 0, false);
    // Of each block that is open, how many branches follow one another in it.
    let mut branches = vec![0];
    for (number, (line, _)) in text.lines().enumerate() {
        for token in tokens(line).iter().filter(|token| !matches!(token, Token::Blank(_))) {
            let token = token.text();
            if let Some(branches) = branches.last_mut() {
                *branches = if token == "else" {
                    *branches + 1
                } else if is_behind_block {
                    0
                } else {
                    *branches
                };
            }
            is_behind_block = token == "}";
            match token {
                "{" => branches.push(0),
                "}" if branches.len() > 1 => drop(branches.pop()),
                _ => {}
            }
            in_statement = if matches!(token, ";" | "{" | "}") { 0 } else { in_statement + 1 };
            declarations += usize::from(branches.len() == 1 && matches!(token, ";" | "}"));
            let why = match () {
                () if in_statement > MOST_TOKENS => format!("a statement has more than {MOST_TOKENS} tokens"),
                () if branches.last() > Some(&MOST_ELSE) => format!("more than {MOST_ELSE} branches of one 'if'"),
                () if declarations > MOST_DECLARATIONS => format!("more than {MOST_DECLARATIONS} declarations"),
                () => continue,
            };
            return Err(text.error_at(number + 1, why));
        }
    }
    Ok(())
}

/// Refuses what compilers would lay out for minutes.
///
/// # Errors
/// A type or the variables of a function that are too large.
pub(super) fn of_module(module: &Module) -> Result<(), (Span, String)> {
    let bytes = |ty: Handle<Type>| match module.types[ty].inner {
        // Its length is the buffer's.
        TypeInner::Array { size: naga::ArraySize::Dynamic, .. } => 0,
        ref inner => inner.try_size(module.to_ctx()).unwrap_or(u32::MAX),
    };
    for (ty, _) in module.types.iter() {
        let size = if is_data(&module.types[ty].inner) { bytes(ty) } else { 0 };
        if size > MOST_BYTES {
            return Err((module.types.get_span(ty), format!("a type of {size} bytes: at most {MOST_BYTES}")));
        }
    }
    let private = module.global_variables.iter().filter(|(_, variable)| variable.space == AddressSpace::Private);
    let private = private.fold(0u32, |sum, (_, variable)| sum.saturating_add(bytes(variable.ty)));
    let functions = module.functions.iter().map(|(_, f)| f).chain(module.entry_points.iter().map(|e| &e.function));
    for function in functions {
        let own = function.local_variables.iter().fold(private, |sum, (_, v)| sum.saturating_add(bytes(v.ty)));
        if own > MOST_BYTES_OF_A_THREAD {
            let at = function.local_variables.iter().next().map(|(variable, _)| variable);
            let span = at.map_or_else(Span::default, |variable| function.local_variables.get_span(variable));
            return Err((span, format!("variables of {own} bytes a thread: at most {MOST_BYTES_OF_A_THREAD}")));
        }
    }
    Ok(())
}

/// Whether a type has a size.
fn is_data(inner: &TypeInner) -> bool {
    matches!(inner, TypeInner::Array { .. } | TypeInner::Struct { .. })
}

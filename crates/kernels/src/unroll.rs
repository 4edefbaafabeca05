//! Loops that are written out. WGSL has no attribute for that, and an array lives in registers only where its indices
//! are constants.
//!
//! `for (var i = 0u; i < ROWS; i++) {    // unroll` becomes its body, once for each value, with `i` a constant. The bound
//! is a `const`, or an expression of constants (see [`crate::constants`]); the loop ends at the first line that closes it at its own indentation.
//! A loop without its marker computes the same.

use crate::SpecialiseError;
use crate::constants;
use crate::specialise::Specialised;
use std::collections::HashMap;

type Line<'a> = (&'a str, (&'static str, usize));

/// Writes out every marked loop.
///
/// # Errors
/// A marked loop that cannot be read; the error points at its line.
pub(crate) fn unroll(text: &Specialised) -> Result<Specialised, SpecialiseError> {
    let lines: Vec<Line<'_>> = text.text.lines().zip(text.origin.iter().copied()).collect();
    let mut constants = HashMap::new();
    for (name, value) in lines.iter().filter_map(|(line, _)| constants::declaration(line)) {
        constants.insert(name, value);
    }
    let mut out = Specialised::default();
    write(&lines, &constants, &mut out)?;
    Ok(out)
}

fn write(lines: &[Line<'_>], constants: &HashMap<&str, &str>, out: &mut Specialised) -> Result<(), SpecialiseError> {
    let mut rest = lines;
    while let Some(((line, at), after)) = rest.split_first() {
        let Some(code) = line.trim_end().strip_suffix("// unroll") else {
            out.push(line, *at);
            rest = after;
            continue;
        };
        let fail = |why: &str| SpecialiseError::at(*at, why.to_owned());
        let (name, bound) = head(code).ok_or_else(|| fail("cannot unroll: not 'for (var i = 0u; i < N; i++) {'"))?;
        let times = constants::value(bound, constants);
        let times = times.ok_or_else(|| fail("cannot unroll: the bound is no expression of constants"))?;
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = after.iter().position(|(l, _)| l.strip_prefix(indent) == Some("}"));
        let close = close.ok_or_else(|| fail("cannot unroll: the loop has no end at its own indentation"))?;
        for i in 0..times {
            out.push(&format!("{indent}{{ const {name} = {i}u;"), *at);
            write(&after[..close], constants, out)?;
            out.push(after[close].0, after[close].1);
        }
        rest = &after[close + 1..];
    }
    Ok(())
}

/// The counter and the bound of a loop.
fn head(code: &str) -> Option<(&str, &str)> {
    let (name, rest) = code.trim().strip_prefix("for (var ")?.split_once(" = 0u; ")?;
    let bound = rest.strip_prefix(name)?.strip_prefix(" < ")?.strip_suffix("++) {")?.strip_suffix(name)?;
    Some((name, bound.strip_suffix("; ")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unrolled(text: &str) -> Result<String, SpecialiseError> {
        let mut given = Specialised::default();
        text.lines().enumerate().for_each(|(i, line)| given.push(line, ("test.wgsl", i + 1)));
        unroll(&given).map(|out| {
            assert_eq!(out.text.lines().count(), out.origin.len());
            out.text
        })
    }

    #[test]
    fn marked_loops_are_written_out_and_others_stay() {
        let text = "const N: u32 = 2u;\n\
                    for (var i = 0u; i < N; i++) {    // unroll\n    \
                        for (var j = 0u; j < 1u; j++) { // unroll\n        f(i, j);\n    }\n\
                    }\n\
                    for (var i = 0u; i < N; i++) {\n}\n";
        let want = "const N: u32 = 2u;\n\
                    { const i = 0u;\n    { const j = 0u;\n        f(i, j);\n    }\n}\n\
                    { const i = 1u;\n    { const j = 0u;\n        f(i, j);\n    }\n}\n\
                    for (var i = 0u; i < N; i++) {\n}\n";
        assert_eq!(unrolled(text).unwrap(), want);
    }

    #[test]
    fn bounds_may_be_expressions_of_constants() {
        let text = "const M: u32 = 3u * N / K;\nconst N: u32 = 2u;\nconst K: u32 = 4u;\n\
                    for (var i = 0u; i < M; i++) { // unroll\n    f(i);\n}\n";
        let head = "const M: u32 = 3u * N / K;\nconst N: u32 = 2u;\nconst K: u32 = 4u;\n";
        assert_eq!(unrolled(text).unwrap(), format!("{head}{{ const i = 0u;\n    f(i);\n}}\n"));
        assert!(unrolled(&text.replace("3u * N", "3u ^ N")).is_err());
    }

    #[test]
    fn what_cannot_be_written_out_is_an_error_with_its_line() {
        for wrong in [
            "while true { // unroll",
            "for (var i = 0u; i < M; i++) { // unroll\n}",
            "for (var i = 0u; i < 2u; i++) { // unroll",
        ] {
            let message = unrolled(&format!("\n{wrong}\n")).unwrap_err().to_string();
            assert!(message.starts_with("test.wgsl:2: cannot unroll"), "{message}");
        }
    }
}

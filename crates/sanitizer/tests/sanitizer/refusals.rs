//! Refusals name the place of each thing that cannot be run.

use wgoose_sanitizer::{Buffer, Dispatch, SanitizerError, Shader};

const PLAIN: &str = "@group(0) @binding(3) var<storage, read_write> y: array<vec4<u32>>;
    @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) tid: u32) { y[0].x = tid; }";

#[test]
fn text_that_is_no_wgsl_has_a_line() {
    let error = Shader::parse("fn main() {\n    let x = y;\n}").unwrap_err();
    assert!(matches!(error, SanitizerError::Invalid { line: 2, .. }), "{error}");
    assert_eq!(Shader::parse("fn f() {}").unwrap_err(), SanitizerError::NoEntryPoint);
}

#[test]
fn an_unknown_construct_is_named_with_its_line() {
    let wgsl = "@group(0) @binding(0) var image: texture_2d<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1) fn main() {
            y[0] = textureLoad(image, vec2(0, 0), 0).x;
        }";
    let dispatch = Dispatch::new([1, 1, 1]).bind(1, Buffer::unwritten(4));
    let error = Shader::parse(wgsl).unwrap().run(&dispatch).unwrap_err();
    assert!(matches!(&error, SanitizerError::Unknown { line: 4, what, .. } if what.contains("ImageLoad")), "{error}");
}

#[test]
fn buffers_are_there_and_long_enough() {
    let shader = Shader::parse(PLAIN).unwrap();
    let unbound = SanitizerError::Unbound { variable: "y".to_owned(), group: 0, binding: 3 };
    assert_eq!(shader.run(&Dispatch::new([1, 1, 1])).unwrap_err(), unbound);
    let short = Dispatch::new([1, 1, 1]).bind(3, Buffer::unwritten(12));
    let need = SanitizerError::TooShort { variable: "y".to_owned(), need: 16, bytes: 12 };
    assert_eq!(shader.run(&short).unwrap_err(), need);
}

#[test]
fn sizes_beyond_the_shadow_are_refused() {
    let shader = Shader::parse(PLAIN).unwrap();
    let bound = |workgroups| Dispatch::new(workgroups).bind(3, Buffer::unwritten(16));
    assert_eq!(shader.run(&bound([1, 1, 1]).with_subgroups_of(24)).unwrap_err(), SanitizerError::SubgroupSize(24));
    assert!(matches!(shader.run(&bound([65535, 65535, 2])).unwrap_err(), SanitizerError::TooMany(_)));
}

#[test]
fn a_loop_without_an_end_is_an_error_with_its_line() {
    let wgsl = PLAIN.replace("y[0].x = tid;", "var n = 0u;\nwhile tid < 64u { n += 1u; }\ny[0].x = n;");
    let dispatch = Dispatch { max_steps: 1 << 20, ..Dispatch::new([1, 1, 1]).bind(3, Buffer::unwritten(16)) };
    let error = Shader::parse(&wgsl).unwrap().run(&dispatch).unwrap_err();
    assert!(matches!(error, SanitizerError::TooLong { line: 3, .. }), "{error}");
}

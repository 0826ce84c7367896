//! Compiles the shim against the headers that llama-cpp-sys-2 installed, and binds it.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=shim");
    let cmake = env::var_os("DEP_LLAMA_GGML_CMAKE_DIR")
        .expect("llama-cpp-sys-2 tells its direct dependents where it installed ggml");
    // <prefix>/lib/cmake -> <prefix>/include
    let include = PathBuf::from(cmake).join("../../include");

    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(true)
        .extra_warnings(true)
        .opt_level(2)
        .include(&include)
        .include("shim")
        .file("shim/clef_shim.cpp")
        .compile("clef_shim");

    let bindings = bindgen::Builder::default()
        .header("shim/clef_shim.h")
        .clang_arg(format!("-I{}", include.display()))
        .allowlist_recursively(false)
        .allowlist_item("clef_.*")
        .allowlist_item("CLEF_.*")
        .prepend_enum_name(false)
        .raw_line("use llama_cpp_sys_2::*;")
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()
        .expect("the shim's own header parses");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("shim.rs")).expect("OUT_DIR can be written");
}

//! Says what is embedded in the program, so that a new file in a template is not missed.

fn main() {
    for folder in ["../plugins/templates", "../plugins/sdk", "../wit"] {
        println!("cargo:rerun-if-changed={folder}");
    }
}

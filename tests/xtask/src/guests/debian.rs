//! A compiler for guests where rustup can't add the target: Debian's `rustc-web`, which comes with
//! its own std source. The packages are unpacked, not installed, because they conflict with rustup's.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::is_root;
use crate::setup::which;

use super::TARGET;

const PACKAGES: [&str; 5] =
    ["rustc-web", "libstd-rust-web-dev", "rust-web-llvm", "rust-web-src", "wasi-libc"];

/// The wrapper to give cargo as `RUSTC`. Downloads and unpacks the packages the first time.
pub fn rustc() -> Result<PathBuf> {
    let prefix = cache_folder()?.join("outhaul").join("guest-toolchain");
    let wrapper = prefix.join("bin").join("rustc");
    // Written last, so that it vouches for the rest.
    if wrapper.exists() && version(&wrapper).is_ok() {
        return Ok(wrapper);
    }
    if !which("apt-get") || !which("dpkg-deb") {
        bail!(
            "Rust has no target {TARGET} here and rustup could not add it; run  rustup target add {TARGET}  \
             on a machine with a network, or build on Debian, whose own packages can be used"
        );
    }
    if prefix.exists() {
        std::fs::remove_dir_all(&prefix).with_context(|| format!("clearing {}", prefix.display()))?;
    }
    let debs = prefix.join("debs");
    std::fs::create_dir_all(&debs)?;
    update_lists()?;
    let missing = missing_packages()?;
    println!(
        "setup: downloading Debian's {} (about 200 MB) and unpacking them in {}",
        missing.join(" "),
        prefix.display()
    );
    succeeded(Command::new("apt-get").args(["download", "-qq"]).args(&missing).current_dir(&debs))?;
    let root = prefix.join("root");
    for deb in std::fs::read_dir(&debs)? {
        succeeded(Command::new("dpkg-deb").arg("-x").arg(deb?.path()).arg(&root))?;
    }
    std::fs::remove_dir_all(&debs)?;
    let usr = root.join("usr");
    put_libc(&usr)?;
    write_wrapper(&wrapper, &usr)?;
    println!("setup: guests are built by {}", version(&wrapper)?);
    Ok(wrapper)
}

fn cache_folder() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set; set one, so that the toolchain has a place")
}

/// Lists that are old name packages that are gone. Without the right to update them, what is there
/// must do.
fn update_lists() -> Result<()> {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["--non-interactive", "apt-get"]);
        sudo
    };
    let status = command.args(["update", "-qq"]).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("setup: `apt-get update` failed; going on with the package lists that are here");
    }
    Ok(())
}

/// What apt would install, which is what this machine lacks: the packages, the linker of the same
/// LLVM, and the shared libraries they need.
fn missing_packages() -> Result<Vec<String>> {
    let linker = format!("lld-{}", llvm_version()?);
    let mut packages: Vec<&str> = PACKAGES.to_vec();
    packages.push(&linker);
    let missing = simulate(&packages)?;
    if !missing.iter().any(|name| name == "rustc-web") {
        bail!("apt has no rustc-web to download; Debian 12 with its security updates has it");
    }
    Ok(missing)
}

/// The LLVM that Debian built the compiler with, as apt tells it: `Depends: llvm-22`.
fn llvm_version() -> Result<u32> {
    let mut command = Command::new("apt-cache");
    let output = command.args(["depends", "rust-web-llvm"]).env("LC_ALL", "C").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let versions = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: llvm-"));
    versions
        .filter_map(|version| version.parse().ok())
        .next()
        .context("apt knows no rust-web-llvm; Debian 12 with its security updates has it")
}

/// The packages that `apt-get install` would add. It changes nothing.
fn simulate(packages: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new("apt-get");
    command.args(["--simulate", "--no-install-recommends", "install"]).args(packages).env("LC_ALL", "C");
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

/// The target's own std would bring these; std built from source looks for them there.
fn put_libc(usr: &Path) -> Result<()> {
    let to = usr.join("lib/rustlib").join(TARGET).join("lib/self-contained");
    std::fs::create_dir_all(&to)?;
    for name in ["crt1-command.o", "crt1-reactor.o", "libc.a"] {
        let from = usr.join("lib/wasm32-wasi").join(name);
        std::fs::copy(&from, to.join(name)).with_context(|| format!("copying {}", from.display()))?;
    }
    Ok(())
}

/// The unpacked compiler finds its libraries and its linker only when told where they are.
fn write_wrapper(wrapper: &Path, usr: &Path) -> Result<()> {
    let libraries = usr.join("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let llvm = format!("lib/llvm-{}/bin", llvm_version()?);
    let linker = [usr.join(&llvm), Path::new("/usr").join(&llvm)]
        .into_iter()
        .find(|bin| bin.join("wasm-ld").exists())
        .context("no wasm-ld in the packages; is lld of the same LLVM among them?")?;
    let script = format!(
        "#!/bin/sh\n\
         export LD_LIBRARY_PATH='{}'${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n\
         export PATH='{}':\"$PATH\"\n\
         exec '{}' \"$@\"\n",
        libraries.display(),
        linker.display(),
        usr.join("bin/rustc").display(),
    );
    std::fs::create_dir_all(wrapper.parent().context("the wrapper has no folder")?)?;
    std::fs::write(wrapper, script)?;
    std::fs::set_permissions(wrapper, PermissionsExt::from_mode(0o755))?;
    Ok(())
}

fn version(rustc: &Path) -> Result<String> {
    let output = Command::new(rustc).arg("-V").output()?;
    if !output.status.success() {
        bail!("{} does not run: {}", rustc.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn succeeded(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed with {status}");
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    outhaul::cli::main()
}

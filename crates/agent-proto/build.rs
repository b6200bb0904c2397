//! Generates Rust code from the Protobuf contract, without the program
//! `protoc`.

use std::io;

const ROOT: &str = "../../proto";
const FILE: &str = "workspace/agent/v1/agent.proto";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={ROOT}/{FILE}");
    let descriptors = protox::compile([FILE], [ROOT]).map_err(io::Error::other)?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .build_transport(false)
        .compile_fds(descriptors)
}

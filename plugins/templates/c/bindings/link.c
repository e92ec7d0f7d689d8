// The generated code asks for an object file that holds the world's types. build.sh takes them from wit/ instead,
// by `wasm-tools component embed`; this stands in for the object.
void __component_type_object_force_link_plugin(void) {}

//! Where weights come from: GGUF, safetensors and .pth over one memory map; synthetic models.

"""``.tflite`` files."""

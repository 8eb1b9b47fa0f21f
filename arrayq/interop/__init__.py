"""What each array library needs: one module per library, imported when one of its arrays is seen.

``access.py`` is what any array-API library offers; the other modules add what one library can do
beyond it, or lacks. `arrayq.namespaces` alone decides which module serves an array.
"""

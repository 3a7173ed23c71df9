"""The archive on disk: the experiments of the thesis, 4.4, and its appendix A."""
